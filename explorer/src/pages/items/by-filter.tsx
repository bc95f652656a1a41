// All items that the filter finds, deleted or patched: counted first, confirmed, each only if nobody changed it since it was
// read, at low priority, stopped at any moment; what is left is said.

import { createSignal, For, Show, type JSX } from "solid-js";
import { queryItems, textMember, type BulkOperation } from "../../client/endpoints";
import { keyOf, pathNames } from "../../client/key";
import { patient } from "../../client/patient";
import { patchBody, type PatchOperation } from "../../editor/patch";
import { Confirm, Dialog } from "../../kit/dialog";
import { integer, plural, ru } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { failureWords } from "../../state/words";
import { sendAll } from "./bulk-work";
import type { Wanted } from "./listing";
import { PatchForm } from "./patch-form";

interface ByFilterProps {
  db: string;
  coll: string;
  keyPaths: string[];
  filter: string;
  scope: Wanted["scope"];
  onClose: (hasChanged: boolean) => void;
}

type Stage = "ready" | "counting" | "counted" | "running" | "done" | "stopped" | "failed";
const PAGE = 100;
const TYPED_FROM = 100;
const LOW = { "x-ms-cosmos-priority-level": "Low" };

export function ByFilter(props: ByFilterProps): JSX.Element {
  const [kind, setKind] = createSignal<"Patch" | "Delete">("Patch");
  const [operations, setOperations] = createSignal<PatchOperation[] | null>(null);
  const [stage, setStage] = createSignal<Stage>("ready");
  const [count, setCount] = createSignal(0);
  const [cost, setCost] = createSignal(0);
  const [done, setDone] = createSignal(0);
  const [waits, setWaits] = createSignal(0);
  const [reasons, setReasons] = createSignal<string[]>([]);
  const [failure, setFailure] = createSignal<unknown>(null);
  const stop = new AbortController();
  const where = () => (props.filter.trim() === "" ? "" : ` WHERE ${props.filter.trim()}`);
  const ask = (text: string, maxItems: number, continuation: string | null) =>
    patient(
      () =>
        queryItems(props.db, props.coll, {
          text,
          scope: props.scope,
          maxItems,
          continuation,
          signal: stop.signal,
          headers: LOW,
        }),
      { signal: stop.signal },
    );

  const countAll = async () => {
    setStage("counting");
    setFailure(null);
    let [sum, charge] = [0, 0];
    try {
      let continuation: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof ask>> = await ask(
          `SELECT VALUE COUNT(1) FROM c${where()}`,
          PAGE,
          continuation,
        );
        for (const row of page.rows) sum += Number(row);
        charge += page.charge;
        continuation = page.continuation;
      } while (continuation);
      setCount(sum);
      setCost(charge);
      setStage("counted");
    } catch (error) {
      setFailure(error);
      setStage("failed");
    }
  };
  const operationOf = (row: string): BulkOperation => ({
    kind: kind(),
    key: keyOf(row, props.keyPaths),
    id: textMember(row, "id") ?? "",
    etag: textMember(row, "_etag"),
    ...(kind() === "Patch" ? { item: patchBody(operations() ?? []) } : {}),
  });
  const run = async () => {
    setStage("running");
    try {
      let continuation: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof ask>> = await ask(
          `SELECT ${columnsOf(props.keyPaths)} FROM c${where()}`,
          PAGE,
          continuation,
        );
        const outcomes = await sendAll(props.db, props.coll, page.rows.map(operationOf), {
          isStopped: () => stop.signal.aborted,
          onWait: (waiting) => setWaits(waits() + waiting),
        });
        setDone(done() + outcomes.filter(({ reason }) => reason === null).length);
        if (stop.signal.aborted) return void setStage("stopped");
        setReasons([
          ...reasons(),
          ...outcomes.map(({ reason }) => reason).filter((reason): reason is string => reason !== null),
        ]);
        continuation = page.continuation;
      } while (continuation);
      setStage("done");
    } catch (error) {
      if (stop.signal.aborted) return void setStage("stopped");
      setFailure(error);
      setStage("failed");
    }
  };
  const verb = () => (kind() === "Delete" ? "Delete" : "Patch");
  const isUnderWay = () => ["running", "done", "stopped", "failed"].includes(stage()) && stage() !== "counted";
  const close = () => {
    stop.abort();
    props.onClose(done() > 0);
  };

  return (
    <Show
      when={stage() !== "counted"}
      fallback={
        <Confirm
          title={`${verb()} ${plural(count(), "item")}?`}
          action={verb()}
          onConfirm={() => void run()}
          onClose={close}
          typed={count() > TYPED_FROM ? String(count()) : undefined}
        >
          <p>
            {props.filter.trim() === "" ? "All items" : "Every item that this filter finds"} in {props.coll}
            {kind() === "Delete" ? " goes for good." : " is patched."} Counting cost {ru(cost())}.
          </p>
          <Show when={props.filter.trim() !== ""}>
            <pre class="block">{props.filter}</pre>
          </Show>
          <Show when={kind() === "Patch"}>
            <pre class="block">{patchBody(operations() ?? [])}</pre>
          </Show>
          <p class="dim">An item that somebody changes meanwhile stays as it is, and is told.</p>
        </Confirm>
      }
    >
      <Dialog title="All that the filter finds" onClose={close} isWide>
        <Show when={failure()}>
          {(error) => (
            <Failed
              failure={failureWords(done() > 0 ? `It stopped after ${plural(done(), "item")}:` : "Counting", error())}
            />
          )}
        </Show>
        <Show
          when={isUnderWay() && (done() > 0 || stage() !== "failed")}
          fallback={
            <form
              class="form"
              onSubmit={(event) => {
                event.preventDefault();
                void countAll();
              }}
            >
              <p>
                {props.filter.trim() === "" ? "There is no filter: these are all items" : "The filter is"}{" "}
                <Show when={props.filter.trim() !== ""}>
                  <code>{props.filter}</code>
                </Show>
              </p>
              <fieldset class="row">
                <legend class="hidden-label">What to do</legend>
                <label>
                  <input type="radio" name="what" checked={kind() === "Patch"} onChange={() => setKind("Patch")} />{" "}
                  patch them
                </label>
                <label>
                  <input type="radio" name="what" checked={kind() === "Delete"} onChange={() => setKind("Delete")} />{" "}
                  delete them
                </label>
              </fieldset>
              <Show when={kind() === "Patch"}>
                <PatchForm onChange={setOperations} />
              </Show>
              <div class="actions">
                <button type="button" onClick={close}>
                  Cancel
                </button>
                <button
                  type="submit"
                  class="primary"
                  disabled={stage() === "counting" || (kind() === "Patch" && operations() === null)}
                >
                  Count them first
                </button>
              </div>
            </form>
          }
        >
          <progress max={Math.max(1, count())} value={done()} aria-label={`${verb()} items`} />
          <p role="status">
            {integer(done())} of {integer(count())} {kind() === "Delete" ? "deleted" : "patched"}
            <Show when={waits() > 0}> · {plural(waits(), "operation")} waited for throughput (429)</Show>
            <Show when={stage() === "stopped"}>
              {" "}
              · stopped: about {integer(Math.max(0, count() - done()))} are as they were
            </Show>
            <Show when={stage() === "done"}> · done</Show>
          </p>
          <Show when={reasons().length > 0}>
            <p class="bad">{plural(reasons().length, "item")} stayed as it was:</p>
            <ul class="reasons">
              <For each={[...new Set(reasons())].slice(0, 5)}>{(reason) => <li>{reason}</li>}</For>
            </ul>
          </Show>
          <div class="actions">
            <Show
              when={stage() === "running"}
              fallback={
                <button type="button" onClick={close}>
                  Close
                </button>
              }
            >
              <button type="button" onClick={() => stop.abort()}>
                Stop
              </button>
            </Show>
          </div>
        </Show>
      </Dialog>
    </Show>
  );
}

/** What an operation needs of an item, and no more. */
function columnsOf(keyPaths: string[]): string {
  const names = new Set(["id", "_etag", ...keyPaths.map((path) => pathNames(path)[0] ?? "")]);
  return [...names].map((name) => `c[${JSON.stringify(name)}]`).join(", ");
}
