// Two runs beside each other: one is pinned, the figures of the latest are told beside its own.

import { Show, type JSX } from "solid-js";
import { integer, milliseconds, ru } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { changeWords } from "./change-words";
import type { Run } from "./run";

export interface RunFigures {
  text: string;
  charge: number;
  elapsedMs: number;
  rows: number;
  items: number;
  isWhole: boolean;
}

interface CompareProps {
  run: Run;
  text: string;
  pinned: RunFigures | null;
  onPin: (figures: RunFigures | null) => void;
}

function figuresOf(run: Run, text: string): RunFigures {
  return {
    text,
    charge: run.charge(),
    elapsedMs: run.elapsedMs(),
    rows: run.rows().length,
    items: run.ranges().reduce((sum, { items }) => sum + items, 0),
    isWhole: run.state() === "done",
  };
}

/** Keeps the run at hand, to be seen beside the next ones. */
export function Pin(props: CompareProps): JSX.Element {
  const hasRun = () => props.run.pages() > 0 && props.run.state() !== "running";
  return (
    <Show when={hasRun() && !props.pinned}>
      <button
        type="button"
        aria-label="Pin this run to compare with"
        title="Pin this run to compare with"
        onClick={() => props.onPin(figuresOf(props.run, props.text))}
      >
        Pin
      </button>
    </Show>
  );
}

export function Compare(props: CompareProps): JSX.Element {
  const hasRun = () => props.run.pages() > 0 && props.run.state() !== "running";
  const now = () => figuresOf(props.run, props.text);
  const Row = (row: { name: string; figures: RunFigures; before?: RunFigures }): JSX.Element => {
    const cell = (of: (figures: RunFigures) => number, words: (value: number) => string) => (
      <td class="number">
        {words(of(row.figures))}
        <Show when={row.before}>
          {(before) => <span class="dim"> {changeWords(of(before()), of(row.figures))}</span>}
        </Show>
      </td>
    );
    return (
      <tr>
        <th scope="row">{row.name}</th>
        <td class="mono compare-text" title={row.figures.text}>
          {row.figures.text}
        </td>
        {cell(({ charge }) => charge, ru)}
        {cell(({ elapsedMs }) => elapsedMs, milliseconds)}
        {cell(({ rows }) => rows, integer)}
        {cell(({ items }) => items, integer)}
      </tr>
    );
  };
  return (
    <Show when={props.pinned}>
      {(pinned) => (
        <div class="compare">
          <div class="scroll-x">
            <table class="plain" aria-label="Two runs">
              <Heads
                names={[
                  "Run",
                  "Query",
                  { number: "Charge" },
                  { number: "Time" },
                  { number: "Rows" },
                  { number: "Items read" },
                ]}
              />
              <tbody>
                <Row name={pinned().isWhole ? "pinned" : "pinned, not whole"} figures={pinned()} />
                <Show when={hasRun()}>
                  <Row name={now().isWhole ? "latest" : "latest, not whole"} figures={now()} before={pinned()} />
                </Show>
              </tbody>
            </table>
          </div>
          <button type="button" class="plain act" onClick={() => props.onPin(null)}>
            Unpin
          </button>
        </div>
      )}
    </Show>
  );
}
