// The heat map's pane: what it measures, live or still, zoomed or whole, as a picture or as a table.

import { createEffect, createMemo, createSignal, For, on, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import { readHeat, type Heat, type Report } from "../../client/reports";
import { clock, percent, rate, timeOf } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { place, setState } from "../../kit/router";
import { failureWords } from "../../state/words";
import { HeatMap } from "./heat-map";
import { boundWords } from "./heat-words";
import { append, cellAt, closed, hottest, isShare, modelOf, ownerAt, sliceTimes, type HeatModel } from "./heat-model";

const MEASURES = [
  { id: "share", name: "Share of budget" },
  { id: "ru", name: "RU/s" },
  { id: "throttled", name: "429" },
];
const TABLE_CELLS = 20;
/** How far back each window reaches. */
const WINDOW_SECONDS: Record<string, number> = { "10m": 600, "6h": 6 * 3600, "4d": 4 * 86_400, "28d": 28 * 86_400 };

interface HeatPaneProps {
  db: string;
  coll: string;
  window: string;
  report: Report;
  onSplitAt: (partition: string, bound: string) => void;
}

export function HeatPane(props: HeatPaneProps): JSX.Element {
  const [heat, setHeat] = createSignal<Heat | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isTable, setTable] = createSignal(false);
  const state = () => place().state;
  const measure = () => MEASURES.find(({ id }) => id === state()["colour"])?.id ?? "share";
  const query = () => ({
    window: props.window,
    rows: props.window === "10m" ? 128 : 256,
    measure: measure(),
    min: state()["min"],
    max: state()["max"],
  });

  // The report is read anew every other second; the map only where there are other partitions, or something else is asked for.
  const subject = createMemo(() => JSON.stringify([query(), props.report.generation]));
  createEffect(
    on(subject, () => {
      const asked = query();
      // The old map stays until the new one is there, and with it the focus and what is pinned.
      let known: Heat | null = null;
      onCleanup(
        poll(asked.window === "10m" ? 1_000 : 10_000, async () => {
          try {
            const next = await readHeat(props.db, props.coll, { ...asked, since: known?.sequence });
            if (JSON.stringify(asked) !== JSON.stringify(query()) || !next) return;
            const most = Math.ceil((WINDOW_SECONDS[asked.window] ?? 600) / Math.max(1, next.periodSeconds)) + 1;
            known = known ? append(known, next, most) : next;
            setHeat(known);
            setFailure(null);
          } catch (error) {
            setFailure(error);
          }
        }),
      );
    }),
  );
  const model = (): HeatModel | null => {
    const now = heat();
    if (!now) return null;
    return sliceTimes(closed(modelOf(now)), Number(state()["from"] ?? "0"), Number(state()["to"] ?? "0"));
  };
  const isZoomed = () => ["min", "max", "from", "to"].some((name) => state()[name]);
  /** Half of what is shown, back or forth, within what is known. */
  const pan = (way: number) => {
    const times = heat()?.times.map((time) => timeOf(time).getTime()) ?? [];
    const [from, to] = [Number(state()["from"] ?? "0"), Number(state()["to"] ?? "0")];
    const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
    if (!from || !to || times.length === 0) return;
    const step = Math.max(1_000, (to - from) / 2) * way;
    const by = Math.min(Math.max(step, first - from), last - to);
    setState({ from: String(from + by), to: String(to + by) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const way = { "[": -1, "]": 1 }[event.key];
    const target = event.composedPath()[0];
    const isTyping = target instanceof HTMLElement && ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
    if (way && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) pan(way);
  };
  addEventListener("keydown", onKeyDown);
  onCleanup(() => removeEventListener("keydown", onKeyDown));
  const reset = () => setState({ min: "", max: "", from: "", to: "" });

  return (
    <section class="section heat" aria-labelledby="heat-title">
      <div class="row">
        <h2 id="heat-title">Heat over time and key range</h2>
        <span class="segmented" role="group" aria-label="Colour">
          <For each={MEASURES}>
            {({ id, name }) => (
              <button type="button" aria-pressed={measure() === id} onClick={() => setState({ colour: id })}>
                {name}
              </button>
            )}
          </For>
        </span>
        <Show when={state()["from"]}>
          <button type="button" aria-label="Earlier" title="Earlier ([)" onClick={() => pan(-1)}>
            ←
          </button>
          <button type="button" aria-label="Later" title="Later (])" onClick={() => pan(1)}>
            →
          </button>
        </Show>
        <Show when={isZoomed()}>
          <button type="button" onClick={reset}>
            Whole map
          </button>
        </Show>
        <span class="spacer" />
        <button type="button" aria-pressed={isTable()} onClick={() => setTable(!isTable())}>
          As table
        </button>
      </div>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Reading the heat", error())} />}</Show>
      <Show
        when={model()}
        fallback={
          <div class="heat-wait">
            <Loading words="Reading the heat" />
          </div>
        }
      >
        {(now) => (
          <Show when={!isTable()} fallback={<HeatTable model={now()} />}>
            <HeatMap
              model={now()}
              label={`Heat of ${props.coll}, window ${props.window}`}
              onZoom={(zoom) => setState(zoom)}
              onReset={reset}
              onSplitAt={props.onSplitAt}
            />
          </Show>
        )}
      </Show>
    </section>
  );
}

function HeatTable(props: { model: HeatModel }): JSX.Element {
  const value = (cell: number) => (isShare(props.model) ? percent(cell) : rate(cell));
  return (
    <div class="scroll-x">
      <table class="plain">
        <caption class="hidden-label">The hottest cells of the map</caption>
        <Heads names={["Time", "Key range", "Partition", { number: isShare(props.model) ? "Share" : "RU/s" }]} />
        <tbody>
          <For
            each={hottest(props.model, TABLE_CELLS)}
            fallback={
              <tr>
                <td colspan="4">No traffic in this window.</td>
              </tr>
            }
          >
            {({ column, row }) => (
              <tr>
                <td>{clock(new Date(props.model.times[column] ?? 0))}</td>
                <td class="mono">{boundWords(props.model, row)}</td>
                <td>{ownerAt(props.model, column, row)?.id ?? "–"}</td>
                <td class="number">{value(cellAt(props.model, column, row))}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}
