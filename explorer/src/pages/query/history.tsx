// Queries that were run in this browser, with what they cost. They hold data, so they stay here and can be cleared.

import { createResource, createSignal, For, Show, type JSX } from "solid-js";
import { clear, get, put } from "../../client/store";
import { Dialog } from "../../kit/dialog";
import { clock, day, integer, milliseconds, ru } from "../../kit/format";

export interface Ran {
  db: string;
  coll: string;
  text: string;
  charge: number;
  elapsedMs: number;
  rows: number;
  at: number;
  state: string;
}

const KEPT_MAX = 500;

export async function remember(ran: Ran): Promise<void> {
  const list = (await get<Ran[]>("history", "queries")) ?? [];
  await put("history", "queries", [ran, ...list].slice(0, KEPT_MAX));
}

export function History(props: {
  db: string;
  coll: string;
  onPick: (text: string) => void;
  onClose: () => void;
}): JSX.Element {
  const [list, { refetch }] = createResource(async () => (await get<Ran[]>("history", "queries")) ?? []);
  const [filter, setFilter] = createSignal("");
  const found = () =>
    (list() ?? []).filter(({ text }) => text.toLowerCase().includes(filter().toLowerCase())).slice(0, 100);
  const forget = async () => {
    await clear("history");
    await refetch();
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
          <thead>
            <tr>
              <th scope="col">Query</th>
              <th scope="col">Container</th>
              <th scope="col" class="number">
                Charge
              </th>
              <th scope="col" class="number">
                Time
              </th>
              <th scope="col" class="number">
                Rows
              </th>
              <th scope="col">When</th>
            </tr>
          </thead>
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
