// The header: where one is, the pages of the container, the palette, the lock, the theme, who is signed in.

import { For, Show, type JSX } from "solid-js";
import { pathOf, place } from "../kit/router";
import { Drawing } from "../kit/drawing";
import { access, isUnlocked, leave, setUnlocked } from "../state/account";
import { isTreeShown, setTheme, setTreeShown, theme } from "../state/settings";
import { containerTabs, mainPlaces } from "./places";
import { LOCK, MENU, OUT, SEARCH, THEME, UNLOCK } from "./icons";

const NEXT_THEME = { auto: "light", light: "dark", dark: "auto" } as const;

export function Header(props: { openPalette: () => void }): JSX.Element {
  const at = () => place().segments;
  return (
    <header class="header">
      <button
        type="button"
        class="plain square"
        aria-label="Tree of containers"
        aria-expanded={isTreeShown()}
        onClick={() => setTreeShown(!isTreeShown())}
      >
        <Drawing path={MENU} />
      </button>
      <a class="brand" href={pathOf([])} aria-label="Shardlake, home">
        <span class="logo" aria-hidden="true" />
        <span class="optional">Shardlake</span>
      </a>
      <Crumbs segments={at()} />
      <nav class="tabs" aria-label="Pages">
        <Show when={at()[0] === "c" && at()[2]} fallback={<MainTabs />}>
          <For each={containerTabs()}>
            {(tab) => (
              <a
                href={pathOf(["c", at()[1] ?? "", at()[2] ?? "", tab.id])}
                aria-current={(at()[3] ?? "items") === tab.id ? "page" : undefined}
              >
                {tab.name}
              </a>
            )}
          </For>
        </Show>
      </nav>
      <span class="spacer" />
      <button type="button" class="plain" onClick={() => props.openPalette()} aria-label="Ctrl K: go to or do">
        <Drawing path={SEARCH} />
        <span class="keycap optional">Ctrl K</span>
      </button>
      <Show when={access() !== "readOnly"}>
        <button
          type="button"
          class="plain square"
          aria-pressed={isUnlocked()}
          aria-label={isUnlocked() ? "Writing is allowed: lock it" : "Writing is locked: unlock it"}
          title={isUnlocked() ? "Writing is allowed" : "Writing is locked"}
          onClick={() => setUnlocked(!isUnlocked())}
        >
          <Drawing path={isUnlocked() ? UNLOCK : LOCK} />
        </button>
      </Show>
      <button
        type="button"
        class="plain square"
        aria-label={`Theme: ${theme()}`}
        title={`Theme: ${theme()}`}
        onClick={() => setTheme(NEXT_THEME[theme()])}
      >
        <Drawing path={THEME} />
      </button>
      <button type="button" class="plain square" aria-label="Sign out" title="Sign out" onClick={() => void leave()}>
        <Drawing path={OUT} />
      </button>
    </header>
  );
}

function Crumbs(props: { segments: string[] }): JSX.Element {
  const database = () => (["c", "db"].includes(props.segments[0] ?? "") ? props.segments[1] : undefined);
  const container = () => (props.segments[0] === "c" ? props.segments[2] : undefined);
  return (
    <nav class="crumbs" aria-label="Place">
      <Show when={database()}>
        {(db) => (
          <>
            <span class="dim" aria-hidden="true">
              /
            </span>
            <a href={pathOf(["db", db()])} title={db()}>
              {db()}
            </a>
          </>
        )}
      </Show>
      <Show when={container()}>
        {(coll) => (
          <>
            <span class="dim" aria-hidden="true">
              /
            </span>
            <a href={pathOf(["c", database() ?? "", coll(), "items"])} title={coll()}>
              <b>{coll()}</b>
            </a>
          </>
        )}
      </Show>
    </nav>
  );
}

function MainTabs(): JSX.Element {
  const here = () => place().segments[0] ?? "home";
  return (
    <For each={mainPlaces()}>
      {(entry) => (
        <a href={pathOf(entry.id === "home" ? [] : [entry.id])} aria-current={here() === entry.id ? "page" : undefined}>
          {entry.name}
        </a>
      )}
    </For>
  );
}
