// The frame around every page: header, tree, main pane, status bar, palette, and the page that the address names.

import {
  createEffect,
  createMemo,
  createSignal,
  lazy,
  Match,
  onCleanup,
  onMount,
  Show,
  Suspense,
  Switch,
  type Component,
  type JSX,
} from "solid-js";
import { go, place } from "../kit/router";
import { Loading } from "../kit/pane";
import { poll } from "../client/poll";
import { readFindings } from "../client/reports";
import {
  containers,
  isAway,
  isRefused,
  isUnlocked,
  leave,
  noteFindings,
  offers,
  phase,
  refreshTree,
  server,
  setUnlocked,
  access,
} from "../state/account";
import { isTreeShown, setTheme, theme } from "../state/settings";
import type { Entry } from "../kit/palette";
import { Header } from "./header";
import { Tree } from "./tree";
import { StatusBar } from "./status";
import { handleKeys } from "./keys";
import { containerTabs, mainPlaces } from "./places";

// Not needed for the first paint.
const Palette = lazy(async () => ({ default: (await import("../kit/palette")).Palette }));
const SignIn = lazy(async () => ({ default: (await import("./sign-in")).SignIn }));
const KeyHelp = lazy(async () => ({ default: (await import("./key-help")).KeyHelp }));

type Page = Component<{ segments: string[] }> & { preload: () => Promise<unknown> };
const PAGES: Record<string, Page> = {
  home: lazy(() => import("../pages/home/home")),
  items: lazy(() => import("../pages/items/items")),
  query: lazy(() => import("../pages/query/query")),
  db: lazy(() => import("../pages/database/database")),
  scripts: lazy(() => import("../pages/scripts/scripts")),
  operations: lazy(() => import("../pages/operations/operations")),
  feed: lazy(() => import("../pages/feed/feed")),
  settings: lazy(() => import("../pages/settings/settings")),
  projections: lazy(() => import("../pages/projections/projections")),
  partitions: lazy(() => import("../pages/partitions/partitions")),
};

const FINDINGS_MS = 15_000;

/** The page of a place; what no feature backs leads home. */
function pageOf(segments: string[]): string {
  const [first, , , tab] = segments;
  if (first === "c") return containerTabs().some((entry) => entry.id === (tab ?? "items")) ? (tab ?? "items") : "items";
  if (first === "db" && segments.length > 1) return "db";
  return mainPlaces().some((entry) => entry.id === first) ? (first as string) : "home";
}

export function Shell(): JSX.Element {
  const [isPaletteOpen, setPaletteOpen] = createSignal(false);
  const [isHelpOpen, setHelpOpen] = createSignal(false);
  onMount(() => {
    // The page is fetched while the key is tried and the tree is read.
    const [first, , , tab] = place().segments;
    const likely = first === "c" ? (tab ?? "items") : (first ?? "home");
    void PAGES[likely]?.preload().catch(() => undefined);
    const stopKeys = handleKeys({ openPalette: () => setPaletteOpen(true), openHelp: () => setHelpOpen(true) });
    onCleanup(stopKeys);
  });
  createEffect(() => {
    if (phase() !== "ready") return;
    const stop = poll(5_000, refreshTree);
    onCleanup(stop);
  });
  // What is wrong with the container whose pages are looked at is told by its dot, on whichever page.
  const looked = createMemo(() => {
    const [first, db, coll, tab] = place().segments;
    return first === "c" && coll && tab !== "partitions" ? JSON.stringify([db, coll]) : "";
  });
  createEffect(() => {
    if (phase() !== "ready" || access() === "token" || looked() === "" || !offers("parts")) return;
    const [db, coll] = JSON.parse(looked()) as [string, string];
    onCleanup(poll(FINDINGS_MS, async () => noteFindings(db, coll, await readFindings(db, coll))));
  });
  createEffect(() => {
    const { segments } = place();
    const name =
      segments[0] === "c" ? `${segments[2] ?? ""} · ${segments[1] ?? ""}` : (segments[1] ?? segments[0] ?? "");
    document.title = name ? `${name} · Shardlake` : "Shardlake";
  });

  return (
    <Switch fallback={<Loading words="Signing in" />}>
      <Match when={phase() === "signed-out"}>
        <SignIn />
      </Match>
      <Match when={phase() === "ready"}>
        <div class="shell" classList={{ "no-tree": !isTreeShown() }}>
          <Header openPalette={() => setPaletteOpen(true)} />
          <Show when={isAway() || isRefused() || server()?.label}>
            <Bands />
          </Show>
          <Tree />
          <main class="main" id="main" tabindex="-1">
            <CurrentPage />
          </main>
          <StatusBar openHelp={() => setHelpOpen(true)} />
        </div>
        <Show when={isPaletteOpen()}>
          <Palette entries={entries()} onClose={() => setPaletteOpen(false)} />
        </Show>
        <Show when={isHelpOpen()}>
          <KeyHelp onClose={() => setHelpOpen(false)} />
        </Show>
      </Match>
    </Switch>
  );
}

function Bands(): JSX.Element {
  return (
    <Switch fallback={<div class="band label">{server()?.label}</div>}>
      <Match when={isAway()}>
        <div class="band away" role="alert">
          The server does not answer. It is asked again every few seconds; what you typed is kept.
        </div>
      </Match>
      <Match when={isRefused()}>
        <div class="band away row" role="alert">
          The server no longer takes this key. What you typed into an item is kept as a draft.
          <button type="button" onClick={() => void leave()}>
            Sign in again
          </button>
        </div>
      </Match>
    </Switch>
  );
}

/** A page stays while its container does; another container is another page. */
function CurrentPage(): JSX.Element {
  const key = createMemo(() => {
    const { segments } = place();
    const page = pageOf(segments);
    const owner = segments[0] === "c" ? segments.slice(1, 3) : segments[0] === "db" ? segments.slice(1, 2) : [];
    return JSON.stringify([page, ...owner]);
  });
  return (
    <Suspense fallback={<Loading words="Loading the page" />}>
      <Show when={key()} keyed>
        {(text) => {
          const Shown = PAGES[(JSON.parse(text) as string[])[0] as string] as Page;
          return <Shown segments={place().segments} />;
        }}
      </Show>
    </Suspense>
  );
}

function entries(): Entry[] {
  const places = mainPlaces().map(({ id, name }) => ({
    title: name,
    kind: "page",
    run: () => go(id === "home" ? [] : [id]),
  }));
  const { segments } = place();
  const [kind, db, coll] = segments;
  const tabs =
    kind === "c" && db && coll
      ? containerTabs().map(({ id, name }) => ({
          title: `${name} of ${coll}`,
          kind: "page",
          run: () => go(["c", db, coll, id]),
        }))
      : [];
  const open = containers().map(({ database, container }) => ({
    title: `${database} / ${container}`,
    kind: "container",
    run: () => go(["c", database, container, "items"]),
  }));
  const actions: Entry[] = [
    { title: "Switch theme", kind: "action", run: () => setTheme(theme() === "dark" ? "light" : "dark") },
    { title: "Refresh containers", kind: "action", run: () => void refreshTree() },
    { title: "Sign out", kind: "action", run: () => void leave() },
  ];
  if (access() !== "readOnly") {
    actions.push({
      title: isUnlocked() ? "Lock writing" : "Unlock writing",
      kind: "action",
      run: () => setUnlocked(!isUnlocked()),
    });
  }
  return [...tabs, ...places, ...open, ...actions];
}
