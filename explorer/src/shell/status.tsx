// The status bar: who is signed in, what this tab has spent, how busy it is, what the server says of itself.

import { createSignal, onCleanup, Show, type JSX } from "solid-js";
import { NOTHING_WRONG } from "../client/reports";
import { plural, ru } from "../kit/format";
import { findings, isAway, server, signedInWords, spent } from "../state/account";

export function StatusBar(props: { openHelp: () => void }): JSX.Element {
  const [rate, setRate] = createSignal(0);
  let before = spent().requests;
  const timer = setInterval(() => {
    setRate((spent().requests - before) / 2);
    before = spent().requests;
  }, 2000);
  onCleanup(() => clearInterval(timer));
  const findingCount = () =>
    [...findings().values()].reduce((sum, found) => sum + found.filter(({ kind }) => kind !== NOTHING_WRONG).length, 0);
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
