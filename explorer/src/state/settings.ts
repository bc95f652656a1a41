// What a person has set for this browser: theme, tree, single-letter keys.
//
// It lies in localStorage, unlike everything else, because the theme must be known before the first paint. Nothing
// secret and no data is ever put here.

import { createSignal } from "solid-js";

export type Theme = "auto" | "light" | "dark";

function read(name: string): string | null {
  try {
    return localStorage.getItem(`shardlake.${name}`);
  } catch {
    return null;
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(`shardlake.${name}`, value);
  } catch {
    // A browser without storage forgets it at the next load.
  }
}

const themeOf = (text: string | null): Theme => (text === "light" || text === "dark" ? text : "auto");

export const [theme, setThemeSignal] = createSignal<Theme>("auto");
export const [isTreeShown, setTreeShown] = createSignal(true);
export const [hasLetterKeys, setLetterKeysSignal] = createSignal(true);

export function loadSettings(): void {
  setTheme(themeOf(read("theme")));
  setLetterKeysSignal(read("letter-keys") !== "off");
  setTreeShown(matchMedia("(min-width: 761px)").matches);
}

export function setTheme(next: Theme): void {
  setThemeSignal(next);
  document.documentElement.dataset["theme"] = next;
  write("theme", next);
}

export function setLetterKeys(isOn: boolean): void {
  setLetterKeysSignal(isOn);
  write("letter-keys", isOn ? "on" : "off");
}
