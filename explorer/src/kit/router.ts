// Addresses of the interface: a path is a place, its fragment is state.
//
// Names and keys are single percent-encoded segments. Browsers resolve `.` and `..` in paths even when encoded, so such
// a segment, and one that begins with `~`, gets a `~` in front.

import { createSignal } from "solid-js";

export const BASE = "/_explorer/";

export function encodeSegment(name: string): string {
  const isOdd = name === "." || name === ".." || name.startsWith("~") || name === "";
  return encodeURIComponent(isOdd ? `~${name}` : name);
}

export function decodeSegment(segment: string): string {
  const name = decodeURIComponent(segment);
  return name.startsWith("~") ? name.slice(1) : name;
}

export function pathOf(segments: string[]): string {
  return BASE + segments.map(encodeSegment).join("/");
}

/** The segments of a path; one that does not decode leads home. */
export function segmentsOf(path: string): string[] {
  if (!path.startsWith(BASE)) return [];
  const rest = path.slice(BASE.length);
  if (rest === "" || rest === "index.html") return [];
  try {
    return rest.replace(/\/$/, "").split("/").map(decodeSegment);
  } catch {
    return [];
  }
}

export type State = Record<string, string>;

/** State as a fragment: `#filter=a%20b&window=6h`, without what is empty, in the order of names. */
export function writeFragment(state: State): string {
  const names = Object.keys(state)
    .filter((name) => state[name] !== "")
    .sort();
  if (names.length === 0) return "";
  const encode = encodeURIComponent;
  return `#${names.map((name) => `${encode(name)}=${encode(state[name] as string)}`).join("&")}`;
}

export function readFragment(fragment: string): State {
  const state = Object.create(null) as State;
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 1) continue;
    try {
      state[decodeURIComponent(part.slice(0, at))] = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue;
    }
  }
  return state;
}

export interface Place {
  segments: string[];
  state: State;
}

const here = (): Place => ({
  segments: segmentsOf(location.pathname),
  state: readFragment(location.hash),
});

const [place, setPlace] = createSignal<Place>(typeof location === "undefined" ? { segments: [], state: {} } : here());
export { place };

let guard: (() => boolean) | null = null;

/** While set, leaving a place asks first. */
export function guardLeaving(ask: (() => boolean) | null): void {
  guard = ask;
}

export function go(segments: string[], state: State = {}, options: { replace?: boolean } = {}): void {
  const url = pathOf(segments) + writeFragment(state);
  const isSamePath = pathOf(segments) === location.pathname;
  if (!isSamePath && guard && !guard()) return;
  if (options.replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  setPlace({ segments, state });
}

/** Changes state of the place one is at, without a step in the browser's history. */
export function setState(change: State): void {
  go(place().segments, { ...place().state, ...change }, { replace: true });
}

/** Follows the browser's buttons, and links of ours without loading the page anew. */
export function listen(): void {
  addEventListener("popstate", () => setPlace(here()));
  addEventListener("hashchange", () => setPlace(here()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
    event.preventDefault();
    go(segmentsOf(link.pathname), readFragment(link.hash));
  });
}
