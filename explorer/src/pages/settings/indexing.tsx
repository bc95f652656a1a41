// The indexing policy: which paths are indexed, as text, with the difference before it is saved.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { replaceDefinition } from "../../client/endpoints";
import { check } from "../../client/json-check";
import { pretty, valueAt } from "../../client/json";
import type { Editor } from "../../editor/setup";
import { json } from "../../editor/json";
import { difference } from "../../editor/merge";
import { Failed } from "../../kit/pane";
import { TextEditor } from "../../parts/text-editor";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { withMember } from "./definition";
import type { SectionProps } from "./settings";

export function Indexing(props: SectionProps): JSX.Element {
  const stored = () => pretty(valueAt(props.read.text, ["indexingPolicy"]) ?? "{}");
  const [text, setText] = createSignal(stored());
  const [failure, setFailure] = createSignal<unknown>(null);
  let editor = null as Editor | null;
  const mistake = createMemo(() => check(text()).find(({ isError }) => isError));
  const changes = createMemo(() => (mistake() ? [] : difference(stored(), text())));
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
        language={json()}
        isReadOnly={!mayWrite()}
        onReady={(ready) => (editor = ready)}
        onChange={(read) => setText(read())}
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
          <button type="button" class="primary" onClick={() => void save()}>
            Save
          </button>
        </div>
      </Show>
    </>
  );
}
