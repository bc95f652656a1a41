// Queries that were run in this browser, to be found and run again.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { history } from "../../client/history";
import { clear } from "../../client/store";
import { Dialog } from "../../kit/dialog";
import { clock, day, integer, milliseconds, ru } from "../../kit/format";
import { Heads } from "../../kit/heads";

export function History(props: {
  db: string;
  coll: string;
  onPick: (text: string) => void;
  onClose: () => void;
}): JSX.Element {
  const list = asked(history);
  const [filter, setFilter] = createSignal("");
  const found = () =>
    (list.value() ?? []).filter(({ text }) => text.toLowerCase().includes(filter().toLowerCase())).slice(0, 100);
  const forget = async () => {
    await clear("history");
    await list.again();
  };
  return (
    <Dialog title="Queries of this browser" onClose={props.onClose} isWide>
      <div class="row">
        <input
          class="grow"
          type="search"
          aria-label="Filter history"
          placeholder="Filter"
          autofocus
          value={filter()}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <button type="button" onClick={() => void forget()}>
          Clear all
        </button>
      </div>
      <div class="scroll-x">
        <table class="plain">
          <Heads names={["Query", "Container", { number: "Charge" }, { number: "Time" }, { number: "Rows" }, "When"]} />
          <tbody>
            <For
              each={found()}
              fallback={
                <tr>
                  <td colspan="6" class="dim">
                    No query was run here yet.
                  </td>
                </tr>
              }
            >
              {(ran) => (
                <tr>
                  <td>
                    <button
                      type="button"
                      class="plain mono history-text"
                      title={ran.text}
                      onClick={() => props.onPick(ran.text)}
                    >
                      {ran.text}
                    </button>
                  </td>
                  <td>
                    {ran.db} / {ran.coll}
                  </td>
                  <td class="number">{ru(ran.charge)}</td>
                  <td class="number">{milliseconds(ran.elapsedMs)}</td>
                  <td class="number">
                    <Show when={ran.state !== "failed"} fallback="failed">
                      {integer(ran.rows)}
                    </Show>
                  </td>
                  <td>
                    {day(new Date(ran.at))} {clock(new Date(ran.at))}
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </Dialog>
  );
}
