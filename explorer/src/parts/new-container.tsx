// A new container, with its database where there is none of that name yet.

import { createSignal, For, Show, type JSX } from "solid-js";
import { createContainer, createDatabase } from "../client/endpoints";
import { asServerError } from "../client/failure";
import { Dialog } from "../kit/dialog";
import { integer, plural } from "../kit/format";
import { Failed } from "../kit/pane";
import { go, place } from "../kit/router";
import { databases, refreshTree, server } from "../state/account";
import { failureWords } from "../state/words";

/** What a container's throughput is divided by at first, where the server does not say. */
const PARTITION_RU = 6_000;

export function NewContainer(props: { onClose: () => void; database?: string }): JSX.Element {
  const [db, setDb] = createSignal(props.database ?? place().segments[1] ?? databases()[0] ?? "");
  const [id, setId] = createSignal("");
  const [paths, setPaths] = createSignal("/");
  const [throughput, setThroughput] = createSignal("");
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isBusy, setBusy] = createSignal(false);

  const keyPaths = () =>
    paths()
      .split(/[\s,]+/)
      .filter((path) => path !== "");
  const limits = () => server()?.limits ?? {};
  const begins = () => {
    const wanted = Number(throughput() || "0");
    const count = Math.max(1, Math.ceil(wanted / (limits()["throughputPerPartition"] ?? PARTITION_RU)));
    return `Begins with ${plural(count, "partition")}${wanted > 0 ? ` of ${integer(wanted / count)} RU/s` : ""}.`;
  };
  const isPath = (path: string) => path.startsWith("/") && path.length > 1;
  const isReady = () =>
    db() !== "" && id() !== "" && keyPaths().length >= 1 && keyPaths().length <= 3 && keyPaths().every(isPath);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      await createDatabase(db()).catch((error: unknown) => {
        if (asServerError(error).status !== 409) throw error;
      });
      await createContainer(db(), {
        id: id(),
        paths: keyPaths(),
        throughput: throughput() ? Number(throughput()) : null,
      });
      await refreshTree();
      props.onClose();
      go(["c", db(), id(), "items"]);
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog title="New container" onClose={props.onClose}>
      <Show when={failure()}>{(found) => <Failed failure={failureWords("Creating the container", found())} />}</Show>
      <form onSubmit={(event) => void submit(event)}>
        <div class="field">
          <label for="new-db">Database (a new one is created)</label>
          <input
            id="new-db"
            list="databases"
            required
            value={db()}
            onInput={(event) => setDb(event.currentTarget.value)}
          />
          <datalist id="databases">
            <For each={databases()}>{(name) => <option value={name} />}</For>
          </datalist>
        </div>
        <div class="field">
          <label for="new-id">Container</label>
          <input id="new-id" required value={id()} onInput={(event) => setId(event.currentTarget.value)} />
        </div>
        <div class="field">
          <label for="new-key">Partition key: one to three paths, such as /tenant /user</label>
          <input
            id="new-key"
            class="mono"
            required
            value={paths()}
            onInput={(event) => setPaths(event.currentTarget.value)}
          />
          <span class="dim">
            {keyPaths().every(isPath) && keyPaths().length <= 3
              ? "Items with the same value lie together; it cannot be changed later."
              : "A path is / and the name of a member: /customer."}
          </span>
        </div>
        <div class="field">
          <label for="new-ru">RU/s (empty: not limited, shown as 400)</label>
          <input
            id="new-ru"
            type="number"
            min={Math.ceil((limits()["throughputMin"] ?? 400) / 100) * 100}
            step="100"
            value={throughput()}
            onInput={(event) => setThroughput(event.currentTarget.value)}
          />
          <span class="dim">{begins()}</span>
        </div>
        <div class="actions">
          <button type="button" onClick={() => props.onClose()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={!isReady() || isBusy()}>
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}
