// What a run brought: rows as table or JSON, plan, partitions, indexes.

import { createMemo, createSignal, For, Match, Show, Switch, type JSX } from "solid-js";
import { textMember } from "../../client/endpoints";
import { areNumbers, cells, compact, pretty, valueAt } from "../../client/json";
import { keyOf } from "../../client/key";
import { integer, milliseconds, plural, ru } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { go, pathOf } from "../../kit/router";
import { saveText } from "../../kit/save";
import { Table, type Column } from "../../kit/table";
import { Cell } from "../../parts/cell";
import { TextEditor } from "../../parts/text-editor";
import { failureWords } from "../../state/words";
import { Indexes, Plan, RangeBars } from "./figures";
import type { Run } from "./run";

type Tab = "rows" | "plan" | "partitions" | "indexes";
const JSON_CHARACTERS_MAX = 4_000_000;
const COLUMNS_MAX = 40;

interface ResultsProps {
  run: Run;
  db: string;
  coll: string;
  keyPaths: string[];
  pin: JSX.Element;
  onGo: (at: number) => void;
}

export function Results(props: ResultsProps): JSX.Element {
  const { run } = props;
  const [tab, setTab] = createSignal<Tab | null>(null);
  const [isJson, setJson] = createSignal(false);
  const tabs = createMemo(() => {
    const found: { id: Tab; name: string }[] = [
      { id: "rows", name: `Rows ${run.rows().length > 0 ? integer(run.rows().length) : ""}` },
    ];
    if (run.page()?.plan) found.push({ id: "plan", name: "Plan" });
    if (run.ranges().length > 0) found.push({ id: "partitions", name: "Partitions" });
    if (run.page()?.indexes) found.push({ id: "indexes", name: "Indexes" });
    return found;
  });
  /** What was chosen, as long as it is there; a plan that did not run is shown at once. */
  const shownTab = (): Tab => {
    const isPlanOnly = run.pages() === 0 && run.page() !== null;
    const chosen = tabs().find(({ id }) => id === tab())?.id;
    return isPlanOnly && chosen !== "indexes" ? "plan" : (chosen ?? "rows");
  };
  const figures = () => {
    const parts = [ru(run.charge()), milliseconds(run.elapsedMs()), plural(run.pages(), "page")];
    if (run.ranges().length > 0) {
      parts.push(
        plural(run.ranges().length, "partition"),
        `${plural(
          run.ranges().reduce((sum, { items }) => sum + items, 0),
          "item",
        )} read`,
      );
    }
    return parts.join(" · ");
  };
  return (
    <section class="column results" aria-label="Results">
      <div class="toolbar">
        <div role="tablist" aria-label="Results" class="tab-row">
          <For each={tabs()}>
            {({ id, name }) => (
              <button
                type="button"
                role="tab"
                class="plain tab"
                aria-selected={shownTab() === id}
                onClick={() => setTab(id)}
              >
                {name}
              </button>
            )}
          </For>
        </div>
        <span class="spacer" />
        <Show when={run.pages() > 0}>
          <span class="dim" role="status">
            {figures()}
          </span>
        </Show>
        {props.pin}
        <Show when={shownTab() === "rows" && run.rows().length > 0}>
          <button type="button" aria-pressed={isJson()} onClick={() => setJson(!isJson())} title="Table or JSON">
            JSON
          </button>
          <button
            type="button"
            class="plain square"
            aria-label="Save rows as JSON lines"
            title="Save rows as JSON lines"
            onClick={() =>
              void saveText(
                `${props.coll}-rows.jsonl`,
                run
                  .rows()
                  .map((row) => `${compact(row)}\n`)
                  .join(""),
              )
            }
          >
            <Icon name="download" />
          </button>
        </Show>
      </div>
      <Show when={run.failure()}>
        {(error) => (
          <>
            <Failed failure={failureWords("The query", error())} />
            <Show when={error().places[0]}>
              {(at) => (
                <button type="button" class="plain act" onClick={() => props.onGo(at().start)}>
                  Show the place
                </button>
              )}
            </Show>
          </>
        )}
      </Show>
      <Show when={run.state() === "running"}>
        <Loading
          // From the first page on, the line above tells how far it is.
          words={
            run.waits() > 0
              ? `waits for throughput (429), ${plural(run.waits(), "time")}`
              : run.pages() > 0
                ? ""
                : "Waiting for the first page"
          }
          onStop={() => run.stop()}
        />
      </Show>
      <Show when={run.state() === "stopped"}>
        <div class="note" role="status">
          Stopped: these rows are not all.
        </div>
      </Show>
      <Show when={run.state() === "cut"}>
        <div class="note" role="status">
          Cut at {plural(run.rows().length, "row")}: raise “At most” to read more.
        </div>
      </Show>
      <Switch>
        <Match when={shownTab() === "plan"}>
          <Plan
            boxes={run.page()?.plan ?? []}
            partitions={run.page()?.ranges.length ?? 0}
            advice={run.page()?.advice ?? []}
          />
        </Match>
        <Match when={shownTab() === "partitions"}>
          <RangeBars
            ranges={run.ranges()}
            charge={run.charge()}
            link={pathOf(["c", props.db, props.coll, "partitions"])}
          />
        </Match>
        <Match when={shownTab() === "indexes"}>
          <Indexes page={run.page()} link={`${pathOf(["c", props.db, props.coll, "settings"])}#section=indexing`} />
        </Match>
        <Match when={run.rows().length > 0}>
          <Show when={isJson()} fallback={<Rows run={run} db={props.db} coll={props.coll} keyPaths={props.keyPaths} />}>
            <JsonRows rows={run.rows()} />
          </Show>
        </Match>
        <Match when={run.state() === "done"}>
          <Empty title="No rows">
            <p>The query ran to its end and found nothing.</p>
          </Empty>
        </Match>
        <Match when={run.state() === "idle"}>
          <Empty title="Nothing has run">
            <p>Shift+Enter runs the selection, else the statement at the cursor. Esc stops.</p>
          </Empty>
        </Match>
      </Switch>
    </section>
  );
}

function JsonRows(props: { rows: string[] }): JSX.Element {
  const text = createMemo(() => {
    const parts: string[] = [];
    let size = 0;
    for (const row of props.rows) {
      if ((size += row.length) > JSON_CHARACTERS_MAX) break;
      parts.push(row);
    }
    return { shown: parts.length, text: pretty(`[${parts.join(",")}]`) };
  });
  return (
    <>
      <Show when={text().shown < props.rows.length}>
        <div class="note">The first {integer(text().shown)} rows are shown here; the table and the file have all.</div>
      </Show>
      <TextEditor text={text().text} label="Rows as JSON" language="json" isReadOnly />
    </>
  );
}

function Rows(props: Omit<ResultsProps, "pin" | "onGo">): JSX.Element {
  const [cursor, setCursor] = createSignal(0);
  const rows = () => props.run.rows();
  const single = () => (rows().length === 1 && !["{", "["].includes(rows()[0]?.[0] ?? "") ? rows()[0] : undefined);
  const names = createMemo(() => {
    const found = new Set<string>();
    for (const row of rows().slice(0, 200))
      for (const name of cells(row).keys()) if (found.size < COLUMNS_MAX) found.add(name);
    const system = ["_rid", "_self", "_etag", "_attachments", "_ts"];
    return [...found].filter((name) => !system.includes(name) || found.size <= system.length);
  });
  const tokenOf = (text: string, name: string): string | undefined =>
    name === "" ? (text[0] === "{" ? undefined : text) : text[0] === "{" ? valueAt(text, [name]) : undefined;
  const columns = createMemo((): Column[] => {
    const sample = rows().slice(0, 200);
    return [
      { name: "#", width: "56px", isNumber: true },
      ...names().map((name) => ({
        name: name === "" ? "value" : name,
        // Few columns stay beside each other rather than far apart.
        width: names().length > 3 ? "minmax(120px, 1fr)" : "minmax(120px, 320px)",
        isNumber: areNumbers(sample.map((text) => tokenOf(text, name))),
      })),
    ];
  });
  const cell = (row: number, column: number): JSX.Element => {
    if (column === 0) return <span class="dim">{row + 1}</span>;
    return <Cell token={tokenOf(rows()[row] ?? "", names()[column - 1] ?? "")} />;
  };
  const open = (row: number) => {
    const text = rows()[row] ?? "";
    const id = text[0] === "{" ? textMember(text, "id") : undefined;
    if (id === undefined || textMember(text, "_self") === undefined) return;
    go(["c", props.db, props.coll, "items", keyOf(text, props.keyPaths), id]);
  };
  return (
    <Show when={single() === undefined} fallback={<p class="one-value mono">{single()}</p>}>
      <Table
        label="Rows"
        columns={columns()}
        count={rows().length}
        cell={cell}
        cursor={cursor()}
        onCursor={setCursor}
        onOpen={open}
      />
    </Show>
  );
}
