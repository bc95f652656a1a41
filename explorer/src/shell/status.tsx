// The status bar: who is signed in, what this tab has spent, how busy it is, what the server says of itself.

import { createEffect, createMemo, createSignal, onCleanup, Show, type JSX } from "solid-js";
import { isWrong, readFindings } from "../client/account";
import { poll } from "../client/poll";
import { plural, ru } from "../kit/format";
import { place } from "../kit/router";
import { access, findings, isAway, noteFindings, offers, phase, server, signedInWords, spent } from "../state/account";

const FINDINGS_MS = 15_000;

export function StatusBar(props: { openHelp: () => void }): JSX.Element {
  const [rate, setRate] = createSignal(0);
  let before = spent().requests;
  const timer = setInterval(() => {
    setRate((spent().requests - before) / 2);
    before = spent().requests;
  }, 2000);
  onCleanup(() => clearInterval(timer));
  // What is wrong with the container whose pages are looked at is told by its dot, on whichever page.
  const looked = createMemo<string[]>(
    () => {
      const [first, db, coll, tab] = place().segments;
      return first === "c" && db && coll && tab !== "partitions" ? [db, coll] : [];
    },
    [],
    { equals: (left, right) => left[0] === right[0] && left[1] === right[1] },
  );
  createEffect(() => {
    const [db, coll] = looked();
    if (phase() !== "ready" || access() === "token" || !db || !coll || !offers("parts")) return;
    onCleanup(poll(FINDINGS_MS, async () => noteFindings(db, coll, await readFindings(db, coll))));
  });
  const findingCount = () => [...findings().values()].reduce((sum, found) => sum + found.filter(isWrong).length, 0);
  return (
    <footer class="status">
      <span>signed in: {signedInWords()}</span>
      <span>this tab has spent {ru(spent().ru)}</span>
      <span class="optional">{rate().toFixed(0)} requests/s</span>
      <Show when={server()}>{(info) => <span class="optional">server {info().version}</span>}</Show>
      <Show when={server()?.durability}>{(words) => <span class="optional">{words()}</span>}</Show>
      <Show when={findingCount() > 0}>
        <span class="warn">{plural(findingCount(), "finding")}</span>
      </Show>
      <Show when={isAway()}>
        <span class="bad">server away</span>
      </Show>
      <span class="spacer" />
      <button type="button" class="plain status-help" onClick={() => props.openHelp()}>
        Keys <span class="keycap">?</span>
      </button>
    </footer>
  );
}
