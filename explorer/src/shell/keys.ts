// Keys that work everywhere, but for Ctrl K, which the frame has from the first paint on. Single letters work outside text
// fields only, and can be switched off.

import { go, place } from "../kit/router";
import { hasLetterKeys } from "../state/settings";
import { containerTabs, mainPlaces } from "./places";

export interface KeyActions {
  openHelp: () => void;
}

const SEQUENCE_MS = 1_500;

/** Returns what stops it. */
export function handleKeys(actions: KeyActions): () => void {
  let wentAt = Number.NEGATIVE_INFINITY;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !hasLetterKeys() || isTyping(event)) return;
    if (document.querySelector("dialog[open]")) return;
    if (performance.now() - wentAt < SEQUENCE_MS) {
      wentAt = Number.NEGATIVE_INFINITY;
      if (jump(event.key)) event.preventDefault();
      return;
    }
    if (event.key === "g") wentAt = performance.now();
    else if (event.key === "?") actions.openHelp();
    else if (event.key === "/") {
      const filter = document.querySelector<HTMLElement>("[data-filter]") ?? document.getElementById("tree-filter");
      filter?.focus();
      event.preventDefault();
    }
  };
  addEventListener("keydown", onKeyDown);
  return () => removeEventListener("keydown", onKeyDown);
}

function jump(letter: string): boolean {
  const main = mainPlaces().find((entry) => entry.letter === letter);
  if (main) {
    go(main.id === "home" ? [] : [main.id]);
    return true;
  }
  const [kind, db, coll] = place().segments;
  const tab = containerTabs().find((entry) => entry.letter === letter);
  if (!tab || kind !== "c" || !db || !coll) return false;
  go(["c", db, coll, tab.id]);
  return true;
}

/** Whether keys are text where they are pressed: fields, and editors inside their shadow roots. */
export function isTyping(event: Event): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
