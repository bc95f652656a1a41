// Deleting the chosen items: told beforehand, typed for many, each only if nobody changed it since it was read.

import { createSignal, Show, type JSX } from "solid-js";
import { deleteItem, textMember } from "../../client/endpoints";
import { asServerError } from "../../client/failure";
import { keyOf } from "../../client/key";
import { Confirm, Dialog } from "../../kit/dialog";
import { integer, plural } from "../../kit/format";
import { sendAll } from "./bulk-work";

interface DeleteManyProps {
  db: string;
  coll: string;
  keyPaths: string[];
  rows: { at: number; text: string }[];
  onGone: (gone: ReadonlySet<number>) => void;
  onClose: () => void;
}

const BATCH = 100;
const TYPED_FROM = 100;

export function DeleteMany(props: DeleteManyProps): JSX.Element {
  const [done, setDone] = createSignal(0);
  const [isRunning, setRunning] = createSignal(false);
  const [isStopped, setStopped] = createSignal(false);
  const [reasons, setReasons] = createSignal<string[]>([]);
  const rows = props.rows;

  const run = async () => {
    setRunning(true);
    const gone = new Set<number>();
    for (let at = 0; at < rows.length && !isStopped(); at += BATCH) {
      await removeBatch(props, rows.slice(at, at + BATCH), gone, (reason) => setReasons([...reasons(), reason]));
      setDone(Math.min(at + BATCH, rows.length));
    }
    props.onGone(gone);
    if (reasons().length === 0 && !isStopped()) props.onClose();
    else setRunning(false);
  };

  return (
    <Show
      when={isRunning() || done() > 0}
      fallback={
        <Confirm
          title={`Delete ${plural(rows.length, "item")}?`}
          action="Delete"
          onConfirm={() => void run()}
          onClose={props.onClose}
          typed={rows.length > TYPED_FROM ? String(rows.length) : undefined}
        >
          <p>
            {plural(rows.length, "item")} of {props.coll} go for good:{" "}
            {rows
              .slice(0, 5)
              .map(({ text }) => textMember(text, "id"))
              .join(", ")}
            {rows.length > 5 ? "…" : ""}
          </p>
        </Confirm>
      }
    >
      <Dialog
        title="Deleting"
        onClose={() => {
          setStopped(true);
          props.onClose();
        }}
      >
        <progress max={rows.length} value={done()} aria-label="Deleted" />
        <p>
          {integer(done())} of {integer(rows.length)} asked for
          {isStopped() ? ` · stopped, ${integer(rows.length - done())} are left` : ""}
        </p>
        <Show when={reasons().length > 0}>
          <p class="bad">
            {plural(reasons().length, "item")} stayed: {reasons()[0]}
          </p>
        </Show>
        <div class="actions">
          <Show
            when={isRunning()}
            fallback={
              <button type="button" onClick={() => props.onClose()}>
                Close
              </button>
            }
          >
            <button type="button" onClick={() => setStopped(true)}>
              Stop
            </button>
          </Show>
        </div>
      </Dialog>
    </Show>
  );
}

async function removeBatch(
  props: DeleteManyProps,
  rows: { at: number; text: string }[],
  gone: Set<number>,
  failed: (reason: string) => void,
): Promise<void> {
  const { db, coll } = props;
  if (rows.length === 1 || rows.some(({ text }) => ["", ".", ".."].includes(textMember(text, "id") ?? ""))) {
    for (const { at, text } of rows) {
      const item = {
        db,
        coll,
        key: keyOf(text, props.keyPaths),
        id: textMember(text, "id") ?? "",
        self: textMember(text, "_self"),
      };
      try {
        await deleteItem(item, textMember(text, "_etag") ?? null);
        gone.add(at);
      } catch (error) {
        failed(asServerError(error).message);
      }
    }
    return;
  }
  const operations = rows.map(({ text }) => ({
    kind: "Delete" as const,
    key: keyOf(text, props.keyPaths),
    id: textMember(text, "id") ?? "",
    etag: textMember(text, "_etag"),
  }));
  const outcomes = await sendAll(db, coll, operations, { isStopped: () => false });
  outcomes.forEach(({ reason }, at) => {
    if (reason === null) gone.add(rows[at]?.at ?? -1);
    else failed(reason);
  });
}
