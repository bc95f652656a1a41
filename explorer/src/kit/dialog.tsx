// Dialogs: the browser's own modal element, so that focus stays inside, Esc closes and the focus returns.

import { createSignal, createUniqueId, onCleanup, onMount, Show, type JSX } from "solid-js";
import { Icon } from "./icons";

export interface DialogProps {
  title: string;
  onClose: () => void;
  children: JSX.Element;
  isWide?: boolean;
}

export function Dialog(props: DialogProps): JSX.Element {
  const id = createUniqueId();
  let element!: HTMLDialogElement;
  const before = document.activeElement;
  onMount(() => element.showModal());
  onCleanup(() => {
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  return (
    <dialog
      ref={element}
      class="dialog"
      classList={{ wide: props.isWide === true }}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <header>
        <h2 id={id}>{props.title}</h2>
        <button type="button" class="plain square" aria-label="Close" onClick={() => props.onClose()}>
          <Icon name="close" />
        </button>
      </header>
      <div class="dialog-body">{props.children}</div>
    </dialog>
  );
}

export interface ConfirmProps {
  title: string;
  /** What happens, and to what. */
  children: JSX.Element;
  action: string;
  /** Has to be typed first. */
  typed?: string | undefined;
  onConfirm: () => void;
  onClose: () => void;
}

export function Confirm(props: ConfirmProps): JSX.Element {
  const [text, setText] = createSignal("");
  const id = createUniqueId();
  const isReady = () => props.typed === undefined || text() === props.typed;
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady()) props.onConfirm();
        }}
      >
        <div class="prose">{props.children}</div>
        <Show when={props.typed !== undefined}>
          <label for={id}>
            Type <b class="mono">{props.typed}</b> to go on
          </label>
          <input
            id={id}
            autocomplete="off"
            spellcheck={false}
            value={text()}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </Show>
        <div class="actions">
          <button type="button" onClick={() => props.onClose()}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={!isReady()}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
