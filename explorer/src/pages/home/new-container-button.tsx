// The button for a new container, and its dialog.

import { createSignal, Show, type JSX } from "solid-js";
import { NewContainer } from "../../parts/new-container";

export function NewContainerButton(): JSX.Element {
  const [isOpen, setOpen] = createSignal(false);
  return (
    <>
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        New container
      </button>
      <Show when={isOpen()}>
        <NewContainer onClose={() => setOpen(false)} />
      </Show>
    </>
  );
}
