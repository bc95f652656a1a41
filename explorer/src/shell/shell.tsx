// The frame around every page: header, tree, main pane, status bar, palette, and the page that the address names.

import {
  createEffect,
  createMemo,
  createSignal,
  Match,
  onCleanup,
  onMount,
  Show,
  Switch,
  type Component,
  type JSX,
} from "solid-js";
import { go, place } from "../kit/router";
import { later, type Later } from "../kit/later";
import { Loading } from "../kit/loading";
import { poll } from "../client/poll";
import { phase, refreshTree } from "../state/account";
import { isTreeShown } from "../state/settings";
import { Header } from "./header";
import { Tree } from "./tree";
import { containerTabs, mainPlaces } from "./places";

// Not needed for the first paint.
const after = () => import("./after");
const StatusBar = later("The status bar", async () => (await after()).StatusBar);
const Palette = later("The palette", async () => (await import("./actions")).Actions);
const SignIn = later("The page for signing in", async () => (await import("./sign-in")).SignIn);
const KeyHelp = later("The list of keys", async () => (await import("./key-help")).KeyHelp);

type Page = Later<{ segments: string[] }>;
const page = (name: string, load: () => Promise<{ default: Component<{ segments: string[] }> }>): Page =>
  later(`The page ${name}`, async () => (await load()).default, { isPage: true });
const PAGES: Record<string, Page> = {
  home: page("Home", () => import("../pages/home/home")),
  items: page("Items", () => import("../pages/items/items")),
  query: page("Query", () => import("../pages/query/query")),
  db: page("of a database", () => import("../pages/database/database")),
  scripts: page("Scripts", () => import("../pages/scripts/scripts")),
  sql: page("SQL", () => import("../pages/sql/sql")),
  operations: page("Operations", () => import("../pages/operations/operations")),
  feed: page("Feed", () => import("../pages/feed/feed")),
  settings: page("Settings", () => import("../pages/settings/settings")),
  analytics: page("Analytics", () => import("../pages/analytics/analytics")),
  copies: page("Copies", () => import("../pages/copies/copies")),
  partitions: page("Partitions", () => import("../pages/partitions/partitions")),
};

/** The page of a place; what no feature backs leads home. */
function pageOf(segments: string[]): string {
  const [first, , , tab] = segments;
  if (first === "c") return containerTabs().some((entry) => entry.id === (tab ?? "items")) ? (tab ?? "items") : "items";
  if (first === "db" && segments.length > 1) return "db";
  return mainPlaces().some((entry) => entry.id === first) ? (first as string) : "home";
}

export function Shell(): JSX.Element {
  const [bands, setBands] = createSignal<Component | null>(null);
  const [isPaletteOpen, setPaletteOpen] = createSignal(false);
  const [isHelpOpen, setHelpOpen] = createSignal(false);
  onMount(() => {
    // The page is fetched while the key is tried and the tree is read.
    const [first, , , tab] = place().segments;
    const likely = first === "c" ? (tab ?? "items") : (first ?? "home");
    void PAGES[likely]?.preload();
    // The other keys may come late. A browser has a use of its own for this one, and the key would be lost besides.
    addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
      event.preventDefault();
      setPaletteOpen(true);
    });
    void after().then(
      ({ Bands, handleKeys }) => {
        setBands(() => Bands);
        handleKeys({ openHelp: () => setHelpOpen(true) });
        // There before it is opened: what is typed right behind Ctrl K is for it.
        void Palette.preload();
      },
      () => undefined,
    );
  });
  createEffect(() => {
    if (phase() !== "ready") return;
    const stop = poll(5_000, refreshTree);
    onCleanup(stop);
  });
  createEffect(() => {
    const { segments } = place();
    // The page had another address before.
    if (segments[0] === "projections") return go(["copies"], {}, { replace: true });
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
          <Show when={bands()} keyed>
            {(Bands) => <Bands />}
          </Show>
          <Tree />
          <main class="main" id="main" tabindex="-1">
            <CurrentPage />
          </main>
          <StatusBar openHelp={() => setHelpOpen(true)} />
        </div>
        <Show when={isPaletteOpen()}>
          <Palette onClose={() => setPaletteOpen(false)} />
        </Show>
        <Show when={isHelpOpen()}>
          <KeyHelp onClose={() => setHelpOpen(false)} />
        </Show>
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
    <Show when={key()} keyed>
      {(text) => {
        const Shown = PAGES[(JSON.parse(text) as string[])[0] as string] as Page;
        return <Shown segments={place().segments} />;
      }}
    </Show>
  );
}
