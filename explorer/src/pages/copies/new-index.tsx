// A new global secondary index: its source, its partition key, and the query whose rows are its items.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { createContainer } from "../../client/endpoints";
import { asServerError } from "../../client/failure";
import { readPaths } from "../../client/schema";
import type { Editor } from "../../editor/setup";
import { Dialog } from "../../kit/dialog";
import { Failed } from "../../kit/pane";
import { TextEditor } from "../../parts/text-editor";
import { containers, offers, refreshTree } from "../../state/account";
import { failureWords } from "../../state/words";
import { placesIn } from "./copy-words";

const FIRST = "SELECT * FROM c";

export function NewIndex(props: { onClose: () => void; onCreated: () => void }): JSX.Element {
  const [chosen, setChosen] = createSignal(0);
  const [id, setId] = createSignal("");
  const [key, setKey] = createSignal("/");
  const [throughput, setThroughput] = createSignal("");
  const [isAutoscale, setAutoscale] = createSignal(false);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isBusy, setBusy] = createSignal(false);
  let editor = null as Editor | null;
  // The list as it was when the dialog opened, so that a choice stays the same container.
  const sources = containers();
  const source = () => sources[chosen()];
  const paths = () =>
    key()
      .split(/[\s,]+/)
      .filter((path) => path !== "");
  const isReady = () =>
    source() !== undefined && id() !== "" && paths().length > 0 && paths().every((path) => /^\/./.test(path));
  /** Names of members for completion, read once for each source. */
  const members = createMemo(() => {
    const from = source();
    let read: Promise<string[]> | null = null;
    return () =>
      (read ??=
        from && offers("schema") ? readPaths(from.database, from.container).catch(() => []) : Promise.resolve([]));
  });
  const marks = () =>
    failure() ? placesIn(asServerError(failure()).message).map((place) => ({ ...place, isError: true })) : [];
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const from = source();
    if (!from) return;
    setBusy(true);
    setFailure(null);
    try {
      await createContainer(from.database, {
        id: id(),
        paths: paths(),
        throughput: throughput() === "" ? null : Number(throughput()),
        isAutoscale: isAutoscale(),
        index: { sourceCollectionId: from.container, definition: editor?.text() ?? FIRST },
      });
      await refreshTree();
      props.onCreated();
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  return (
    <Dialog title="New index" onClose={props.onClose} isWide>
      <Show
        when={sources.length > 0}
        fallback={<p>There is no container yet. An index is derived from one: create it first.</p>}
      >
        <form onSubmit={(event) => void create(event)}>
          <div class="fields">
            <div class="field">
              <label for="index-source">Source</label>
              <select id="index-source" onChange={(event) => setChosen(event.currentTarget.selectedIndex)}>
                <For each={sources}>
                  {({ database, container }) => (
                    <option>
                      {database} / {container}
                    </option>
                  )}
                </For>
              </select>
            </div>
            <div class="field">
              <label for="index-name">Name of the index</label>
              <input
                id="index-name"
                required
                autocomplete="off"
                spellcheck={false}
                value={id()}
                onInput={(event) => setId(event.currentTarget.value)}
              />
            </div>
            <div class="field">
              <label for="index-key">Partition key, such as /email</label>
              <input
                id="index-key"
                class="mono"
                required
                autocomplete="off"
                spellcheck={false}
                value={key()}
                onInput={(event) => setKey(event.currentTarget.value)}
              />
            </div>
            <div class="field">
              <label for="index-ru">RU/s (empty: not limited)</label>
              <input
                id="index-ru"
                type="number"
                min="100"
                step="100"
                value={throughput()}
                onInput={(event) => setThroughput(event.currentTarget.value)}
              />
              <label>
                <input
                  type="checkbox"
                  checked={isAutoscale()}
                  onChange={(event) => setAutoscale(event.currentTarget.checked)}
                />{" "}
                autoscale, from a tenth of it
              </label>
            </div>
          </div>
          <p class="dim definition-help">
            Definition: its rows are the items of the index. Paths, expressions, <code>JOIN … IN</code> and{" "}
            <code>WHERE</code> are accepted; the server names the place of any other part.
          </p>
          <div class="dialog-editor short">
            <TextEditor
              text={FIRST}
              label="Definition"
              language="nosql"
              onReady={(ready) => (editor = ready)}
              marks={marks()}
              complete={async (context) => (await import("../../editor/nosql")).completeQuery(members())(context)}
            />
          </div>
          <Show when={failure()}>{(error) => <Failed failure={failureWords("Creating the index", error())} />}</Show>
          <div class="actions">
            <button type="button" onClick={() => props.onClose()}>
              Cancel
            </button>
            <button type="submit" class="primary" disabled={!isReady() || isBusy()}>
              Create
            </button>
          </div>
        </form>
      </Show>
    </Dialog>
  );
}
