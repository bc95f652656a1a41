// What the palette finds: pages, containers, and what can be done from everywhere.

import type { JSX } from "solid-js";
import { go, place } from "../kit/router";
import { Palette, type Entry } from "../kit/palette";
import { access, containers, isUnlocked, leave, refreshTree, setUnlocked } from "../state/account";
import { setTheme, theme } from "../state/settings";
import { containerTabs, mainPlaces } from "./places";

export function Actions(props: { onClose: () => void }): JSX.Element {
  return <Palette entries={entries()} onClose={() => props.onClose()} />;
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
