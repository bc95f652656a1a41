// The same question asked of the items themselves, in the language of the NoSQL API: its rows, and its charge.

import { createEffect, createMemo, createSignal, For, on, onCleanup, Show, type JSX } from "solid-js";
import type { NamedTable } from "../../client/analytics";
import { asServerError, isAborted, type ServerError } from "../../client/failure";
import { patient } from "../../client/patient";
import { runPage, type QueryPage } from "../../client/query";
import { milliseconds, plural, ru } from "../../kit/format";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { offers } from "../../state/account";
import { failureWords } from "../../state/words";
import { suggestionOf } from "./suggestion";

const ROWS_MAX = 1_000;
const PAGE_ROWS = 500;

interface Cost {
  charge: number;
  elapsedMs: number;
  rows: number;
  partitions: number;
  isCut: boolean;
}

export function SameQuestion(props: { text: string; tables: NamedTable[]; database: string }): JSX.Element {
  const suggestion = createMemo(() => suggestionOf(props.text, props.tables, props.database));
  const [typed, setTyped] = createSignal<string | null>(null);
  const [chosen, setChosen] = createSignal<string | null>(null);
  const [cost, setCost] = createSignal<Cost | null>(null);
  const [failure, setFailure] = createSignal<ServerError | null>(null);
  const [isRunning, setRunning] = createSignal(false);
  let running: AbortController | null = null;
  const names = () => props.tables.map(({ database, container }) => `${database}/${container}`);
  const suggestedName = () => {
    const found = suggestion();
    return found ? `${found.database}/${found.container}` : null;
  };
  const container = () => chosen() ?? suggestedName() ?? names()[0] ?? "";
  const text = () => typed() ?? suggestion()?.text ?? "";
  // Another question has another answer.
  createEffect(
    on(suggestion, () => (setTyped(null), setChosen(null), setCost(null), setFailure(null)), { defer: true }),
  );
  onCleanup(() => running?.abort());

  const start = async () => {
    const table = props.tables.find((one) => `${one.database}/${one.container}` === container());
    if (!table || text().trim() === "") return;
    running?.abort();
    const mine = new AbortController();
    running = mine;
    setRunning(true);
    setFailure(null);
    setCost(null);
    let sum: Cost = { charge: 0, elapsedMs: 0, rows: 0, partitions: 0, isCut: false };
    try {
      let continuation: string | null = null;
      const partitions = new Set<string>();
      do {
        const query = { text: text(), maxItems: PAGE_ROWS, continuation, signal: mine.signal };
        const ask = () => runPage(table.database, table.container, query, { byOperator: offers("query") });
        const page: QueryPage = await patient(ask, { signal: mine.signal });
        if (running !== mine) return;
        for (const { id } of page.ranges) partitions.add(id);
        continuation = page.continuation;
        const rows = sum.rows + page.rows.length;
        sum = {
          charge: sum.charge + page.charge,
          elapsedMs: sum.elapsedMs + page.elapsedMs,
          rows,
          partitions: partitions.size,
          isCut: continuation !== null && rows >= ROWS_MAX,
        };
      } while (continuation !== null && !sum.isCut);
      setCost(sum);
    } catch (error) {
      if (running !== mine) return;
      if (!isAborted(error)) setFailure(asServerError(error));
    }
    setRunning(false);
  };

  return (
    <section class="card same-question" aria-labelledby="same-question">
      <h2 id="same-question">The same question over items</h2>
      <p class="dim after">
        {suggestion()
          ? "Suggested from the SQL text. The query runs on the items, and is charged."
          : "Write the question in the language of the NoSQL API. The query runs on the items, and is charged."}
      </p>
      <label>
        Container
        <select onChange={(event) => setChosen(event.currentTarget.value)}>
          <For each={names()}>
            {(name) => (
              <option value={name} selected={name === container()}>
                {name}
              </option>
            )}
          </For>
        </select>
      </label>
      <textarea
        class="mono"
        rows="5"
        aria-label="NoSQL query"
        spellcheck={false}
        placeholder="SELECT … FROM c"
        value={text()}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <div class="row after">
        <button type="button" disabled={isRunning() || text().trim() === ""} onClick={() => void start()}>
          Run over items
        </button>
        <Show when={cost()}>
          {(now) => (
            <span role="status">
              {ru(now().charge)}, {milliseconds(now().elapsedMs)}, {plural(now().rows, "row")}
              {now().partitions > 0 ? `, ${plural(now().partitions, "partition")}` : ""}
              {now().isCut ? " (the first ones)" : ""}
            </span>
          )}
        </Show>
      </div>
      <Show when={isRunning()}>
        <Loading words="Reading items" onStop={() => (running?.abort(), setRunning(false))} />
      </Show>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("The query over items", error())} />}</Show>
    </section>
  );
}
