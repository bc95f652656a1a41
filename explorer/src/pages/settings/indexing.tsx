// The indexing policy: which paths are indexed, as text, with the difference before it is saved.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { replaceDefinition } from "../../client/endpoints";
import { latestOf } from "../../client/history";
import { check } from "../../client/json-check";
import { pretty, valueAt } from "../../client/json";
import { previewIndexing, type IndexingPreview } from "../../client/schema";
import type { Editor } from "../../editor/setup";
import { difference } from "../../editor/merge";
import { bytes, integer } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { TextEditor } from "../../parts/text-editor";
import { mayWrite, offers } from "../../state/account";
import { failureWords } from "../../state/words";
import { withMember } from "../../client/definition";
import { QueryFates } from "./query-fates";
import type { SectionProps } from "./settings";

/** As many as a preview may ask about, with room to spare. */
const QUERIES_JUDGED = 12;

export function Indexing(props: SectionProps): JSX.Element {
  const stored = () => pretty(valueAt(props.read.text, ["indexingPolicy"]) ?? "{}");
  const [text, setText] = createSignal(stored());
  const [failure, setFailure] = createSignal<unknown>(null);
  let editor = null as Editor | null;
  const mistake = createMemo(() => check(text()).find(({ isError }) => isError));
  const changes = createMemo(() => (mistake() ? [] : difference(stored(), text())));
  const [preview, setPreview] = createSignal<IndexingPreview | null>(null);
  const look = async () => {
    setFailure(null);
    try {
      const { db, coll } = props;
      setPreview(await previewIndexing(db, coll, text(), await latestOf(db, coll, QUERIES_JUDGED)));
    } catch (error) {
      setFailure(error);
    }
  };
  const save = async () => {
    setFailure(null);
    try {
      await replaceDefinition(
        props.db,
        props.coll,
        withMember(props.read.text, "indexingPolicy", text()),
        props.read.etag,
      );
      props.onSaved();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <>
      <Show when={failure()}>
        {(error) => <Failed failure={failureWords("Saving the indexing policy", error())} />}
      </Show>
      <p class="pad dim">
        Paths as <code>/a/b/?</code> for a value, <code>/a/*</code> for all below. A changed policy is built in the
        background; queries that need it scan until then.
      </p>
      <TextEditor
        text={stored()}
        label="Indexing policy"
        language="json"
        isReadOnly={!mayWrite()}
        onReady={(ready) => (editor = ready)}
        onChange={(read) => {
          setText(read());
          setPreview(null);
        }}
        marks={mistake() ? [{ from: mistake()?.at ?? 0, to: mistake()?.end ?? 0, isError: true }] : []}
      />
      <Show when={mistake()}>
        {(found) => (
          <button type="button" class="remark bad" onClick={() => editor?.goTo(found().at)}>
            {found().words}
          </button>
        )}
      </Show>
      <Show when={changes().length > 0}>
        <div class="note">
          <b>Changes:</b>
          <For each={changes()}>
            {(change) => (
              <span class="mono">
                {change.path}: {change.base ?? "missing"} → {change.theirs ?? "missing"}
              </span>
            )}
          </For>
          <span class="spacer" />
          <button type="button" onClick={() => editor?.setText(stored())}>
            Undo
          </button>
          <Show when={offers("indexingPreview")}>
            <button type="button" onClick={() => void look()}>
              Preview
            </button>
          </Show>
          <button type="button" class="primary" onClick={() => void save()}>
            Save
          </button>
        </div>
      </Show>
      <Show when={preview()}>{(told) => <Preview preview={told()} />}</Show>
    </>
  );
}

function Preview(props: { preview: IndexingPreview }): JSX.Element {
  const pair = (pair: { now: number; then: number } | null | undefined, unit: string) =>
    pair ? `${twoDigits(pair.now)} → ${twoDigits(pair.then)} ${unit}` : "not known: there are no items";
  return (
    <div class="pad preview" role="status">
      <Show
        when={props.preview.isValid}
        fallback={
          <ul class="reasons bad">
            <For each={props.preview.errors}>
              {({ path, words }) => (
                <li>
                  <span class="mono">{path ?? ""}</span> {words}
                </li>
              )}
            </For>
          </ul>
        }
      >
        <dl class="facts">
          <dt>Index entries of an item</dt>
          <dd>{pair(props.preview.termsPerItem, "")}</dd>
          <dt>A create costs</dt>
          <dd>{pair(props.preview.charge?.create, "RU")}</dd>
          <dt>A replace costs</dt>
          <dd>{pair(props.preview.charge?.replace, "RU")}</dd>
          <dt>Built anew from</dt>
          <dd>
            {integer(props.preview.rebuild?.items ?? 0)} items, {bytes(props.preview.rebuild?.sizeBytes ?? 0)}
          </dd>
          <dt>Means of</dt>
          <dd>{integer(props.preview.sampled ?? 0)} sampled items</dd>
        </dl>
        <QueryFates fates={props.preview.queries ?? []} />
      </Show>
    </div>
  );
}

const twoDigits = (value: number): string => String(Math.round(value * 100) / 100);
