// What was edited, as a patch: the operations that are sent, and their charge beside what a replace would move.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { patchItem, type ItemAddress } from "../../client/endpoints";
import type { Reply } from "../../client/request";
import { patchBody, patchOf } from "../../editor/patch";
import { Dialog } from "../../kit/dialog";
import { bytes, plural } from "../../kit/format";
import { Heads } from "../../kit/heads";

interface SaveAsPatchProps {
  item: ItemAddress;
  stored: string;
  edited: string;
  etag: string;
  onSaved: (reply: Reply) => void;
  onFailed: (error: unknown) => void;
  onClose: () => void;
}

const SHOWN_MAX = 200;

export function SaveAsPatch(props: SaveAsPatchProps): JSX.Element {
  const plan = createMemo(() => patchOf(props.stored, props.edited));
  const body = () => patchBody(plan().operations);
  const [isBusy, setBusy] = createSignal(false);
  const send = async () => {
    setBusy(true);
    await patchItem(props.item, body(), props.etag).then(props.onSaved, props.onFailed);
    setBusy(false);
  };
  return (
    <Dialog title="Save as a patch" onClose={props.onClose} isWide>
      <Show when={plan().obstacle}>{(words) => <p class="warn">Not as a patch: {words()}.</p>}</Show>
      <Show when={plan().operations.length > 0}>
        <p>
          {plural(plan().operations.length, "operation")}, {bytes(new Blob([body()]).size)} instead of{" "}
          {bytes(new Blob([props.edited]).size)}. Applied only if nobody has changed the item since you read it.
        </p>
        <div class="scroll-x">
          <table class="plain">
            <Heads names={["Operation", "Path", "Value"]} />
            <tbody>
              <For each={plan().operations}>
                {({ op, path, value }) => (
                  <tr>
                    <td>{op}</td>
                    <td class="mono">{path}</td>
                    <td class="mono" title={value?.slice(0, 2_000)}>
                      {value === undefined ? "" : value.slice(0, SHOWN_MAX) + (value.length > SHOWN_MAX ? "…" : "")}
                    </td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </Show>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Cancel
        </button>
        <button
          type="button"
          class="primary"
          disabled={isBusy() || plan().obstacle !== null}
          onClick={() => void send()}
        >
          Send the patch
        </button>
      </div>
    </Dialog>
  );
}
