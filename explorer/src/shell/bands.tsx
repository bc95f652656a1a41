// The line above every page: the server is away or refuses the key, writes are refused, the installation's label.

import { Match, onCleanup, Show, Switch, type JSX } from "solid-js";
import { poll } from "../client/poll";
import { isAway, isRefused, leave, server } from "../state/account";
import { refreshHealth, refusedWritesWords } from "../state/health";

export function Bands(): JSX.Element {
  onCleanup(poll(5_000, refreshHealth));
  return (
    <Switch>
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
      <Match when={refusedWritesWords()}>
        {(words) => (
          <div class="band away" role="alert">
            <Show when={server()?.label}>{(label) => <b>{label()}</b>}</Show>
            {words()}
          </div>
        )}
      </Match>
      <Match when={server()?.label}>{(label) => <div class="band label">{label()}</div>}</Match>
    </Switch>
  );
}
