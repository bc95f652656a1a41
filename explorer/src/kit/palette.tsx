// The palette: everything there is, found by a few letters.

import { createMemo, createSignal, createUniqueId, For, type JSX } from "solid-js";
import { Dialog } from "./dialog";
import { rank } from "./rank";

export interface Entry {
  title: string;
  /** What it is: `container`, `action`. */
  kind: string;
  run: () => void;
}

const SHOWN_MAX = 60;

export function Palette(props: {
  entries: Entry[];
  extra?: (text: string) => Entry[];
  onClose: () => void;
}): JSX.Element {
  const [text, setText] = createSignal("");
  const [cursor, setCursor] = createSignal(0);
  const id = createUniqueId();
  const found = createMemo(() => {
    const wanted = text().trim().toLowerCase();
    const ranked = props.entries.flatMap((entry) => {
      const order = rank(entry.title, wanted);
      return order === null ? [] : [{ entry, order }];
    });
    ranked.sort((left, right) => left.order - right.order);
    const entries = ranked.slice(0, SHOWN_MAX).map(({ entry }) => entry);
    return [...entries, ...(wanted ? (props.extra?.(text().trim()) ?? []) : [])];
  });
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    props.onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setCursor(Math.min(Math.max(cursor() + step, 0), found().length - 1));
    else if (event.key === "Enter") run(found()[cursor()]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to or do" onClose={props.onClose}>
      <input
        class="palette-input"
        role="combobox"
        aria-label="Places and actions"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={found().length > 0 ? `${id}-${cursor()}` : undefined}
        autocomplete="off"
        spellcheck={false}
        autofocus
        value={text()}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setCursor(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div class="palette-list" role="listbox" aria-label="Matches" id={id} tabindex="-1">
        <For each={found()}>
          {(entry, at) => (
            <div
              role="option"
              id={`${id}-${at()}`}
              aria-selected={at() === cursor()}
              classList={{ option: true, cursor: at() === cursor() }}
              onClick={() => run(entry)}
            >
              <span>{entry.title}</span>
              <span class="dim">{entry.kind}</span>
            </div>
          )}
        </For>
      </div>
    </Dialog>
  );
}
