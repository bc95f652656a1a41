// The keys of the interface, in a dialog, and the switch for single letters.

import { For, type JSX } from "solid-js";
import { Dialog } from "../kit/dialog";
import { hasLetterKeys, setLetterKeys } from "../state/settings";

const KEYS: [string, string][] = [
  ["Ctrl/⌘ K", "palette: places and actions"],
  ["g, then h i q p f s t j o", "home, items, query, partitions, feed, scripts, settings, copies, operations"],
  ["/", "filter of the page"],
  ["arrows, j k, Home End, PgUp PgDn", "move in a table, in the map"],
  ["Space, Shift+arrows", "select, extend"],
  ["Enter", "open; in the map: pin"],
  ["n  e  d  Del", "new, edit, duplicate, delete an item"],
  ["Ctrl/⌘ S", "save"],
  ["Shift+Enter, Ctrl/⌘ Enter, F5 in the editor", "run the selection, else the statement at the cursor"],
  ["Esc", "stop, close, cancel"],
  ["r", "refresh"],
  ["?", "these keys"],
];

export function KeyHelp(props: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <dl class="facts">
        <For each={KEYS}>
          {([keys, words]) => (
            <>
              <dt class="mono">{keys}</dt>
              <dd>{words}</dd>
            </>
          )}
        </For>
      </dl>
      <p class="after">
        <label>
          <input
            type="checkbox"
            checked={hasLetterKeys()}
            onChange={(event) => setLetterKeys(event.currentTarget.checked)}
          />{" "}
          single letters are keys outside text fields
        </label>
      </p>
    </Dialog>
  );
}
