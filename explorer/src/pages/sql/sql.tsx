// SQL over the analytical tables: write, run, see rows and a plot; and the same question as a query over items, with its charge.

import { createMemo, createSignal, For, on, createEffect, onCleanup, Show, type JSX } from "solid-js";
import { listTables } from "../../client/analytics";
import { asServerError, isAborted, type ServerError } from "../../client/failure";
import { areNumbers } from "../../client/json";
import { askTables, placeIn, tableParametersOf, type TableAnswer } from "../../client/table-query";
import type { Editor } from "../../editor/setup";
import { asked } from "../../kit/asked";
import { bytes, integer, milliseconds, plural } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { place, setState } from "../../kit/router";
import { Table, type Column } from "../../kit/table";
import { Cell } from "../../parts/cell";
import { TextEditor } from "../../parts/text-editor";
import { failureWords } from "../../state/words";
import { Plot, type PlotKind } from "./plot";
import { plotOf } from "./plot-model";
import { SameQuestion } from "./same-question";

const FIRST_TEXT = "SHOW TABLES";

export default function SqlPage(): JSX.Element {
  const known = asked(() => listTables());
  const [text, setText] = createSignal(place().state["q"] ?? FIRST_TEXT);
  const [database, setDatabase] = createSignal(place().state["db"] ?? "");
  const [values, setValues] = createSignal<Record<string, string>>({});
  const [answer, setAnswer] = createSignal<TableAnswer | null>(null);
  const [failure, setFailure] = createSignal<ServerError | null>(null);
  const [isRunning, setRunning] = createSignal(false);
  const [ranText, setRanText] = createSignal("");
  let editor = null as Editor | null;
  let running: AbortController | null = null;
  const tables = () => known.value() ?? [];
  const databases = createMemo(() => [...new Set(tables().map((table) => table.database))]);
  const parameters = createMemo(() => tableParametersOf(text()), undefined, {
    equals: (left, right) => left.join() === right.join(),
  });
  // One database needs no choice.
  createEffect(on(databases, (all) => database() === "" && all.length === 1 && setDatabase(all[0] as string)));
  onCleanup(() => running?.abort());

  const start = async () => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    const now = editor?.text() ?? text();
    setRanText(now);
    setState({ q: now, db: database() });
    setFailure(null);
    setRunning(true);
    try {
      const named = tableParametersOf(now).map((name) => ({ name, value: jsonOf(values()[name] ?? "") }));
      const next = await askTables({ text: now, database: database(), parameters: named, signal: mine.signal });
      if (running === mine) setAnswer(next);
    } catch (error) {
      if (running !== mine) return;
      if (!isAborted(error)) {
        setAnswer(null);
        setFailure(asServerError(error));
      }
    }
    if (running === mine) setRunning(false);
  };
  const stop = () => running?.abort();
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && isRunning()) stop();
  };
  addEventListener("keydown", onKeyDown);
  onCleanup(() => removeEventListener("keydown", onKeyDown));
  const runKeys = ["Shift-Enter", "Mod-Enter", "F5"].map((key) => ({
    key,
    preventDefault: true,
    run: () => {
      void start();
      return true;
    },
  }));
  const marks = () => {
    const at = placeIn(ranText(), failure()?.message ?? "");
    return at === null ? [] : [{ from: at, to: at + 1, isError: true }];
  };

  return (
    <>
      <h1 class="hidden-label">SQL over analytical tables</h1>
      <div class="toolbar">
        <Show
          when={isRunning()}
          fallback={
            <button type="button" class="primary" onClick={() => void start()} title="Shift Enter">
              <Icon name="run" /> Run
            </button>
          }
        >
          <button type="button" class="danger" onClick={stop} title="Esc">
            <Icon name="stop" /> Stop
          </button>
        </Show>
        <label>
          Database
          <select onChange={(event) => setDatabase(event.currentTarget.value)}>
            <option value="" selected={database() === ""}>
              none
            </option>
            <For each={databases()}>
              {(name) => (
                <option value={name} selected={database() === name}>
                  {name}
                </option>
              )}
            </For>
          </select>
        </label>
        <span class="spacer" />
        <span class="dim">{plural(tables().length, "table")}</span>
      </div>
      <Show when={known.error()}>
        {(error) => <Failed failure={failureWords("Reading the tables", error())} onRetry={() => void known.again()} />}
      </Show>
      <div class="query-editor">
        <TextEditor
          text={text()}
          label="SQL text"
          language="tables"
          complete={async (context) =>
            (await import("../../editor/tables")).completeTables(() => Promise.resolve(tables()), database)(context)
          }
          keys={runKeys}
          onReady={(ready) => (editor = ready)}
          onChange={(read) => setText(read())}
          marks={marks()}
        />
        <Show when={parameters().length > 0}>
          <fieldset class="parameters">
            <legend class="dim">Parameters: JSON, or bare text</legend>
            <For each={parameters()}>
              {(name) => (
                <label class="mono">
                  ${name}
                  <input
                    class="mono"
                    spellcheck={false}
                    value={values()[name] ?? ""}
                    onInput={(event) => setValues({ ...values(), [name]: event.currentTarget.value })}
                  />
                </label>
              )}
            </For>
          </fieldset>
        </Show>
      </div>
      <div class="sql-split">
        <section class="column results" aria-label="Rows of tables">
          <Show when={failure()}>{(error) => <Failed failure={failureWords("The query", error())} />}</Show>
          <Show when={isRunning()}>
            <Loading words="Reading the tables" onStop={stop} />
          </Show>
          <Show
            when={answer()}
            keyed
            fallback={
              <Show when={!failure() && !isRunning()}>
                <Empty title="Nothing has run">
                  <p>
                    A query reads columnar copies of containers, joins them, and costs no request units. Tables are
                    named <code>database.container</code>.
                  </p>
                </Empty>
              </Show>
            }
          >
            {(now) => <Answer answer={now} />}
          </Show>
        </section>
        <SameQuestion text={ranText() || text()} tables={tables()} database={database()} />
      </div>
    </>
  );
}

/** `0 RU, 41 ms, 1.2 MB read`. */
function costWords(answer: TableAnswer): string {
  const parts = ["0 RU", milliseconds(answer.elapsedMs)];
  if (answer.bytesRead !== null) parts.push(`${bytes(answer.bytesRead)} read`);
  return parts.join(", ");
}

function Answer(props: { answer: TableAnswer }): JSX.Element {
  const [cursor, setCursor] = createSignal(0);
  const model = createMemo(() => plotOf(props.answer.columns, props.answer.rows));
  const [kind, setKind] = createSignal<PlotKind | null>(null);
  const shownKind = (): PlotKind => kind() ?? (model()?.isOrdered ? "line" : "bars");
  const columns = createMemo((): Column[] => {
    const sample = props.answer.rows.slice(0, 200);
    return [
      { name: "#", width: "56px", isNumber: true },
      ...props.answer.columns.map(({ name, type }, at) => ({
        name,
        title: type,
        width: props.answer.columns.length > 3 ? "minmax(120px, 1fr)" : "minmax(120px, 320px)",
        isNumber: areNumbers(sample.map((row) => row[at])),
      })),
    ];
  });
  const versions = () => props.answer.versions.map(({ table, version }) => `${table} at version ${integer(version)}`);
  return (
    <>
      <div class="toolbar">
        <span role="status">{costWords(props.answer)}</span>
        <span class="dim">
          {plural(props.answer.rows.length, "row")}
          {versions().length > 0 ? `; ${versions().join(", ")}` : ""}
        </span>
        <span class="spacer" />
        <Show when={model()}>
          <span class="segmented" role="group" aria-label="Plot">
            <For each={["bars", "line"] as const}>
              {(one) => (
                <button type="button" aria-pressed={shownKind() === one} onClick={() => setKind(one)}>
                  {one}
                </button>
              )}
            </For>
          </span>
        </Show>
      </div>
      <Show when={model()}>{(now) => <Plot model={now()} kind={shownKind()} />}</Show>
      <Table
        label="Rows"
        columns={columns()}
        count={props.answer.rows.length}
        of={props.answer}
        cell={(row, column) =>
          column === 0 ? <span class="dim">{row + 1}</span> : <Cell token={props.answer.rows[row]?.[column - 1]} />
        }
        cursor={cursor()}
        onCursor={setCursor}
      />
    </>
  );
}

/** A typed value as JSON, or as a text where it is none. */
function jsonOf(typed: string): string {
  const trimmed = typed.trim();
  return /^(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|"(?:[^"\\]|\\.)*"|\[[^]*\])$/.test(trimmed)
    ? trimmed
    : JSON.stringify(typed);
}
