// The rule of a projection as text: a new one, or one to look at and change.

import { createSignal, Show, type JSX } from "solid-js";
import { check } from "../../client/json-check";
import { putProjection } from "../../client/projections";
import type { Editor } from "../../editor/setup";
import { Dialog } from "../../kit/dialog";
import { Failed } from "../../kit/pane";
import { TextEditor } from "../../parts/text-editor";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";

export const NEW_RULE = {
  source: { database: "", container: "" },
  target: { database: "", container: "" },
  match: [{ source: "/id", target: "/sourceId" }],
  set: [{ from: "/name", to: "/sourceName" }],
  start: "beginning",
};

export function RuleDialog(props: { id: string; text: string; onClose: () => void; onSaved: () => void }): JSX.Element {
  const [id, setId] = createSignal(props.id);
  const [failure, setFailure] = createSignal<unknown>(null);
  let editor = null as Editor | null;
  const save = async () => {
    const text = editor?.text() ?? "";
    const mistake = check(text).find(({ isError }) => isError);
    if (mistake) return editor?.goTo(mistake.at);
    try {
      await putProjection(id(), text);
      props.onSaved();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Dialog title={props.id === "" ? "New projection" : `Rule of ${props.id}`} onClose={props.onClose} isWide>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Saving the rule", error())} />}</Show>
      <Show when={props.id === ""}>
        <div class="form narrow">
          <div class="field">
            <label for="rule-id">Id</label>
            <input id="rule-id" value={id()} onInput={(event) => setId(event.currentTarget.value)} />
          </div>
        </div>
      </Show>
      <div class="dialog-editor">
        <TextEditor
          text={props.text}
          label="Rule"
          language="json"
          isReadOnly={!mayWrite()}
          onReady={(ready) => (editor = ready)}
        />
      </div>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Close
        </button>
        <Show when={mayWrite()}>
          <button type="button" class="primary" disabled={id() === ""} onClick={() => void save()}>
            Save
          </button>
        </Show>
      </div>
    </Dialog>
  );
}
