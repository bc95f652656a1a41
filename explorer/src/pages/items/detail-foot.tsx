// The line below an item: its etag, size and charge, and whether there is something to save. Above it, that a draft is kept.

import { Show, type JSX } from "solid-js";
import { Confirm } from "../../kit/dialog";
import { bytes, ru } from "../../kit/format";

interface DetailFootProps {
  etag: string;
  sizeBytes: number | null;
  charge: number;
  isUnsaved: boolean;
}

export function DetailFoot(props: DetailFootProps): JSX.Element {
  return (
    <div class="foot">
      <Show when={props.etag}>
        <span class="mono" title={props.etag}>
          etag {props.etag.replace(/"/g, "").slice(0, 8)}…
        </span>
      </Show>
      <Show when={props.sizeBytes !== null}>
        <span>{bytes(props.sizeBytes ?? 0)}</span>
      </Show>
      <Show when={props.charge > 0}>
        <span>{ru(props.charge)}</span>
      </Show>
      <Show when={props.isUnsaved}>
        <span class="warn">not saved</span>
      </Show>
    </div>
  );
}

export function DraftNote(props: { onRestore: () => void; onDrop: () => void }): JSX.Element {
  return (
    <div class="note">
      A draft of this item is kept.
      <button type="button" onClick={() => props.onRestore()}>
        Restore
      </button>
      <button type="button" class="plain act" onClick={() => props.onDrop()}>
        Drop it
      </button>
    </div>
  );
}

interface ConfirmMoveProps {
  from: string;
  to: string;
  onConfirm: () => void;
  onClose: () => void;
}

export function ConfirmMove(props: ConfirmMoveProps): JSX.Element {
  return (
    <Confirm
      title="Move the item to another key?"
      action="Create, then delete"
      onConfirm={props.onConfirm}
      onClose={props.onClose}
    >
      <p>
        The partition key changed from <span class="mono">{props.from}</span> to <span class="mono">{props.to}</span>.
      </p>
      <p>
        That takes two steps: the item is created under its new key, then the old one is deleted. If the second fails,
        both are there.
      </p>
    </Confirm>
  );
}
