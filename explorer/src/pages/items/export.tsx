// Export of what is chosen, or of all that the filter finds: whole, or it says that it is not.

import { createSignal, Show, type JSX } from "solid-js";
import { queryItems } from "../../client/endpoints";
import { cells, compact, decodeString } from "../../client/json";
import { patient } from "../../client/patient";
import { csvLine } from "../../kit/csv";
import { Dialog } from "../../kit/dialog";
import { integer, plural, ru } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { openSink } from "../../kit/save";
import { failureWords } from "../../state/words";
import type { Wanted } from "./listing";

interface ExportProps {
  db: string;
  coll: string;
  wanted: Wanted;
  /** The chosen rows, or nothing for all that the filter finds. */
  rows: string[] | null;
  onClose: () => void;
}

const PAGE = 500;

export function Export(props: ExportProps): JSX.Element {
  const [format, setFormat] = createSignal<"jsonl" | "csv">("jsonl");
  const [isDisarmed, setDisarmed] = createSignal(true);
  const [count, setCount] = createSignal(0);
  const [charge, setCharge] = createSignal(0);
  const [state, setState] = createSignal<"ready" | "running" | "done">("ready");
  const [failure, setFailure] = createSignal<unknown>(null);
  const stop = new AbortController();

  const run = async () => {
    setFailure(null);
    const sink = await openSink(`${props.coll}.${format()}`).catch(() => null);
    if (!sink) return;
    setState("running");
    let columns: string[] | null = null;
    try {
      for await (const rows of pages()) {
        if (format() === "csv") {
          columns ??= columnsOfRows(rows);
          if (count() === 0) await sink.write(csvLine(columns, { disarm: isDisarmed() }));
          for (const row of rows) await sink.write(csvOf(row, columns, isDisarmed()));
        } else await sink.write(rows.map((row) => `${compact(row)}\n`).join(""));
        setCount(count() + rows.length);
      }
      await sink.close();
      setState("done");
    } catch (error) {
      await sink.abort();
      setFailure(error);
      setState("ready");
    }
  };
  async function* pages(): AsyncGenerator<string[]> {
    if (props.rows) return yield props.rows;
    let continuation: string | null = null;
    do {
      const page: { rows: string[]; continuation: string | null; charge: number } = await patient(() =>
        queryItems(props.db, props.coll, {
          ...props.wanted,
          maxItems: PAGE,
          continuation,
          signal: stop.signal,
          headers: { "x-ms-cosmos-priority-level": "Low" },
        }),
      );
      setCharge(charge() + page.charge);
      continuation = page.continuation;
      yield page.rows;
    } while (continuation);
  }

  return (
    <Dialog
      title={props.rows ? `Export ${integer(props.rows.length)} chosen items` : "Export all that the filter finds"}
      onClose={() => {
        stop.abort();
        props.onClose();
      }}
    >
      <Show when={failure()}>
        {(error) => (
          <Failed
            failure={failureWords(`The export is not whole: it stopped after ${plural(count(), "item")} and`, error())}
          />
        )}
      </Show>
      <div class="form">
        <fieldset class="row">
          <legend class="hidden-label">Format</legend>
          <label>
            <input type="radio" name="format" checked={format() === "jsonl"} onChange={() => setFormat("jsonl")} /> JSON
            lines, as stored
          </label>
          <label>
            <input type="radio" name="format" checked={format() === "csv"} onChange={() => setFormat("csv")} /> CSV,
            columns of the first {PAGE} items
          </label>
        </fieldset>
        <Show when={format() === "csv"}>
          <label>
            <input
              type="checkbox"
              checked={isDisarmed()}
              onChange={(event) => setDisarmed(event.currentTarget.checked)}
            />{" "}
            disarm cells that a spreadsheet would run
          </label>
        </Show>
        <Show when={!("showSaveFilePicker" in globalThis)}>
          <p class="dim">This browser gathers the file in memory first: at most 256 MB.</p>
        </Show>
        <Show when={state() !== "ready"}>
          <p role="status">
            {state() === "done" ? "Done: all" : "Exporting:"} {plural(count(), "item")} · {ru(charge())}
          </p>
        </Show>
        <div class="actions">
          <button
            type="button"
            onClick={() => {
              stop.abort();
              props.onClose();
            }}
          >
            {state() === "running" ? "Stop" : "Close"}
          </button>
          <Show when={state() !== "done"}>
            <button type="button" class="primary" disabled={state() === "running"} onClick={() => void run()}>
              Export
            </button>
          </Show>
        </div>
      </div>
    </Dialog>
  );
}

function columnsOfRows(rows: string[]): string[] {
  const names = new Set<string>();
  for (const row of rows) for (const name of cells(row).keys()) names.add(name);
  return [...names];
}

/** Members that the columns do not have would be lost, so they stop the export. */
function csvOf(row: string, columns: string[], disarm: boolean): string {
  const found = cells(row);
  const lost = [...found.keys()].find((name) => !columns.includes(name));
  if (lost !== undefined)
    throw new Error(`an item has the member "${lost}", for which there is no column: export JSON lines instead`);
  return csvLine(
    columns.map((name) => {
      const token = found.get(name);
      return token === undefined ? "" : decodeString(token);
    }),
    { disarm },
  );
}
