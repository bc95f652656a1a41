// Query: write, run, stop, understand.

import { createEffect, createMemo, createSignal, For, on, onCleanup, onMount, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { queryItems, readDefinition } from "../../client/endpoints";
import { remember } from "../../client/history";
import { members } from "../../client/json";
import { readKey } from "../../client/key";
import { explain } from "../../client/query";
import { readPaths } from "../../client/schema";
import type { Editor } from "../../editor/setup";
import { parametersOf, statementAt } from "../../editor/statements";
import { Icon } from "../../kit/icons";
import { pack, unpack } from "../../kit/deflate";
import { place, setState } from "../../kit/router";
import { TextEditor } from "../../parts/text-editor";
import { offers } from "../../state/account";
import { History } from "./history";
import { Compare, Pin, type RunFigures } from "./compare";
import { Results } from "./results";
import { createRun } from "./run";
import { Saved } from "./saved";

const FIRST_TEXT = "SELECT * FROM c";
const PLAIN_LINK_MAX = 400;

export default function QueryPage(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const run = createRun(db, coll);
  const definition = asked(() => readDefinition(db, coll).catch(() => undefined));
  const [text, setText] = createSignal(place().state["q"] ?? FIRST_TEXT);
  const [typed, setTyped] = createSignal(text());
  const [values, setValues] = createSignal<Record<string, string>>({});
  const [pageSize, setPageSize] = createSignal(100);
  const [rowsMax, setRowsMax] = createSignal(1_000);
  const [from, setFrom] = createSignal(0);
  const [isHistoryOpen, setHistoryOpen] = createSignal(false);
  const [isSavedOpen, setSavedOpen] = createSignal(false);
  const [isCopied, setCopied] = createSignal(false);
  const [pinned, setPinned] = createSignal<RunFigures | null>(null);
  const [ranText, setRanText] = createSignal("");
  let editor = null as Editor | null;
  const parameters = createMemo(() => parametersOf(typed()), undefined, {
    equals: (left, right) => left.join() === right.join(),
  });
  const byOperator = () => offers("query");

  onMount(async () => {
    const packed = place().state["z"];
    const unpacked = packed ? await unpack(packed) : null;
    if (unpacked !== null) fill(unpacked);
  });
  createEffect(
    on(
      () => place().state["q"],
      (next) => next !== undefined && next !== typed() && fill(next),
      { defer: true },
    ),
  );
  onCleanup(() => run.stop());

  const fill = (next: string) => {
    setText(next);
    setTyped(next);
    editor?.setText(next);
  };
  const wanted = () => {
    const selection = editor?.selection() ?? "";
    const whole = editor?.text() ?? typed();
    // The `;` behind a statement is selected with its line.
    const chosen = statementAt(selection, 0);
    if (chosen) return { ...chosen, from: (editor?.view.state.selection.main.from ?? 0) + chosen.from };
    return statementAt(whole, editor?.view.state.selection.main.head ?? 0);
  };
  const queryOf = (statement: { from: number; text: string }) => {
    const lead = statement.text.length - statement.text.trimStart().length;
    setFrom(statement.from + lead);
    return {
      text: statement.text.trim(),
      parameters: parametersOf(statement.text).map((name) => ({ name, value: valueText(values()[name] ?? "") })),
      scope: { key: readKey(place().state["key"] ?? "") },
      maxItems: pageSize(),
    };
  };
  const start = async () => {
    const statement = wanted();
    if (!statement) return;
    const query = queryOf(statement);
    setRanText(query.text);
    await run.start({ query, rowsMax: rowsMax(), byOperator: byOperator() });
    void remember({
      db,
      coll,
      text: query.text,
      parameters: query.parameters,
      charge: run.charge(),
      elapsedMs: run.elapsedMs(),
      rows: run.rows().length,
      at: Date.now(),
      state: run.state(),
    });
  };
  const explainOnly = async () => {
    const statement = wanted();
    if (!statement) return;
    try {
      run.show(await explain(db, coll, queryOf(statement)));
    } catch (error) {
      run.fail(error);
    }
  };
  const link = async () => {
    const now = editor?.text() ?? typed();
    if (now.length <= PLAIN_LINK_MAX) setState({ q: now, z: "" });
    else setState({ q: "", z: await pack(now) });
    await navigator.clipboard.writeText(location.href).catch(() => undefined);
    setCopied(true);
    setTimeout(() => setCopied(false), 2_000);
  };
  let sampled: Promise<string[]> | null = null;
  const paths = () => (sampled ??= offers("schema") ? readPaths(db, coll).catch(() => []) : samplePaths(db, coll));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && run.state() === "running") run.stop();
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

  return (
    <>
      <h1 class="hidden-label">Query {coll}</h1>
      <div class="toolbar">
        <Show
          when={run.state() === "running"}
          fallback={
            <button type="button" class="primary" onClick={() => void start()} title="Shift Enter">
              <Icon name="run" /> Run
            </button>
          }
        >
          <button type="button" class="danger" onClick={() => run.stop()} title="Esc">
            <Icon name="stop" /> Stop
          </button>
        </Show>
        <Show when={offers("query")}>
          <button type="button" onClick={() => void explainOnly()} title="Shows the plan and does not run">
            Explain
          </button>
        </Show>
        <Choice label="Page" value={pageSize()} of={[10, 100, 500, 1000]} onPick={setPageSize} />
        <Choice label="At most" value={rowsMax()} of={[100, 1_000, 10_000, 50_000]} onPick={setRowsMax} />
        <label>
          Key
          <input
            class="mono key-input"
            spellcheck={false}
            autocomplete="off"
            placeholder="all"
            value={place().state["key"] ?? ""}
            onChange={(event) => setState({ key: event.currentTarget.value })}
          />
        </label>
        <span class="spacer" />
        <button type="button" onClick={() => setSavedOpen(true)}>
          Saved
        </button>
        <button type="button" onClick={() => setHistoryOpen(true)}>
          History
        </button>
        <button type="button" onClick={() => void link()}>
          <Icon name="link" /> {isCopied() ? "Copied" : "Link"}
        </button>
      </div>
      <div class="query-editor">
        <TextEditor
          text={text()}
          label="Query text"
          language="nosql"
          complete={async (context) => (await import("../../editor/nosql")).completeQuery(paths)(context)}
          keys={runKeys}
          onReady={(ready) => (editor = ready)}
          onChange={(read) => setTyped(read())}
          marks={(run.failure()?.places ?? []).map(({ start: at, end }) => ({
            from: from() + at,
            to: from() + end,
            isError: true,
          }))}
        />
        <Show when={parameters().length > 0}>
          <fieldset class="parameters">
            <legend class="dim">Parameters: JSON, or bare text</legend>
            <For each={parameters()}>
              {(name) => (
                <label class="mono">
                  {name}
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
      <Compare run={run} text={ranText()} pinned={pinned()} onPin={setPinned} />
      <Results
        run={run}
        db={db}
        coll={coll}
        keyPaths={definition.value()?.value.partitionKey.paths ?? []}
        pin={<Pin run={run} text={ranText()} pinned={pinned()} onPin={setPinned} />}
        onGo={(at) => editor?.goTo(from() + at)}
      />
      <Show when={isSavedOpen()}>
        <Saved
          text={editor?.text() ?? typed()}
          onPick={(next) => {
            fill(next);
            setSavedOpen(false);
          }}
          onClose={() => setSavedOpen(false)}
        />
      </Show>
      <Show when={isHistoryOpen()}>
        <History
          db={db}
          coll={coll}
          onPick={(next) => {
            fill(next);
            setHistoryOpen(false);
          }}
          onClose={() => setHistoryOpen(false)}
        />
      </Show>
    </>
  );
}

function Choice(props: { label: string; value: number; of: number[]; onPick: (value: number) => void }): JSX.Element {
  return (
    <label>
      {props.label}
      <select onChange={(event) => props.onPick(Number(event.currentTarget.value))}>
        <For each={props.of}>
          {(value) => (
            <option value={value} selected={value === props.value}>
              {value.toLocaleString("en-US")}
            </option>
          )}
        </For>
      </select>
    </label>
  );
}

/** What was typed as JSON if it is JSON, else as a text. */
function valueText(typed: string): string {
  const trimmed = typed.trim();
  try {
    JSON.parse(trimmed);
    return trimmed;
  } catch {
    return JSON.stringify(typed);
  }
}

const SAMPLED = 20;
const DEPTH_MAX = 4;

/** Paths of a few items, read once when completion first asks for them. */
async function samplePaths(db: string, coll: string): Promise<string[]> {
  const page = await queryItems(db, coll, {
    text: `SELECT TOP ${SAMPLED} * FROM c`,
    maxItems: SAMPLED,
    headers: { "x-ms-cosmos-priority-level": "Low" },
  }).catch(() => null);
  const paths = new Set<string>();
  const walk = (text: string, prefix: string, depth: number) => {
    if (text[0] !== "{" || depth > DEPTH_MAX) return;
    for (const { name, start, end } of members(text)) {
      paths.add(`${prefix}/${name}`);
      walk(text.slice(start, end), `${prefix}/${name}`, depth + 1);
    }
  };
  for (const row of page?.rows ?? []) walk(row, "", 0);
  return [...paths];
}
