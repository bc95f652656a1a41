// Every partition with its load against its budget, its size against its limit, and what can be done with it.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import type { Partition, Report } from "../../client/reports";
import { bytes, integer, milliseconds, percent, rate } from "../../kit/format";
import { pathOf } from "../../kit/router";
import { secondsWords } from "../../parts/finding-words";
import { mayWrite, server } from "../../state/account";
import { neighbour, type Remedy } from "./remedies";

const SHOWN_MAX = 200;

type Order = "id" | "load" | "throttled" | "size" | "items" | "latency";

const VALUE: Record<Order, (partition: Partition) => number> = {
  id: (partition) => -Number(partition.id),
  load: ({ load, budget }) => load.normalizedRu ?? load.ruPerSecond / (budget?.ruPerSecond ?? 10_000),
  throttled: ({ load }) => load.throttledShare,
  size: ({ sizeBytes }) => sizeBytes,
  items: ({ items }) => items,
  latency: ({ load }) => load.latencyMeanMs,
};

export function PartitionTable(props: { report: Report; onRemedy: (remedy: Remedy) => void }): JSX.Element {
  const [order, setOrder] = createSignal<Order>("id");
  const [filter, setFilter] = createSignal("");
  const rows = createMemo(() => {
    const wanted = filter().trim();
    const found = props.report.partitions.filter(({ id }) => wanted === "" || id === wanted);
    return found.sort((left, right) => VALUE[order()](right) - VALUE[order()](left)).slice(0, SHOWN_MAX);
  });
  const ids = createMemo(() => rows().map(({ id }) => id));
  const byId = (id: string) => props.report.partitions.find((partition) => partition.id === id);
  const Head = (head: { order: Order; name: string; isNumber?: boolean }): JSX.Element => (
    <th
      scope="col"
      classList={{ number: head.isNumber === true }}
      aria-sort={order() === head.order ? "descending" : "none"}
    >
      <button type="button" class="plain sort" onClick={() => setOrder(head.order)}>
        {head.name}
        {order() === head.order ? " ↓" : ""}
      </button>
    </th>
  );
  return (
    <section class="section" aria-labelledby="all-partitions">
      <div class="row">
        <h2 id="all-partitions">Partitions</h2>
        <Show when={props.report.partitions[0]?.load.windowSeconds}>
          {(seconds) => <span class="dim">load of the last {secondsWords(seconds() * 1000)}</span>}
        </Show>
        <Show when={props.report.partitions.length > SHOWN_MAX}>
          <span class="dim">
            {SHOWN_MAX} of {props.report.partitions.length} are shown
          </span>
          <label>
            partition{" "}
            <input class="key-input" value={filter()} onInput={(event) => setFilter(event.currentTarget.value)} />
          </label>
        </Show>
        <span class="spacer" />
        <Show
          when={
            mayWrite() &&
            props.report.throughput.ruPerSecond !== null &&
            props.report.partitions.length > 1 &&
            !props.report.throughput.sharedByDatabase
          }
        >
          <button type="button" onClick={() => props.onRemedy({ kind: "shares", shares: {} })}>
            Shares…
          </button>
        </Show>
      </div>
      <div class="scroll-x">
        <table class="plain partitions-table">
          <thead>
            <tr>
              <Head order="id" name="Partition" />
              <Head order="load" name="Load and budget" />
              <th scope="col" class="number">
                Busiest second
              </th>
              <Head order="throttled" name="429" isNumber />
              <Head order="size" name="Size" />
              <Head order="items" name="Items" isNumber />
              <Head order="latency" name="Latency" isNumber />
              <th scope="col">Hottest key</th>
              <Show when={(server()?.shards?.length ?? 1) > 1}>
                <th scope="col">Shard</th>
              </Show>
              <th scope="col">Next</th>
              <Show when={mayWrite()}>
                <th scope="col">Do</th>
              </Show>
            </tr>
          </thead>
          <tbody>
            <For each={ids()}>
              {(id) => (
                <Show when={byId(id)}>
                  {(partition) => <Row partition={partition()} report={props.report} onRemedy={props.onRemedy} />}
                </Show>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row(props: { partition: Partition; report: Report; onRemedy: (remedy: Remedy) => void }): JSX.Element {
  const load = () => props.partition.load;
  const budget = () => props.partition.budget?.ruPerSecond;
  const share = () => load().ruPerSecond / (budget() ?? 10_000);
  const hottest = () => props.partition.hottestKeys[0];
  const right = () => neighbour(props.report, props.partition.id);
  const shards = () => server()?.shards?.length ?? 1;
  return (
    <tr>
      <th scope="row" class="mono" title={`${props.partition.minInclusive || "00"} to ${props.partition.maxExclusive}`}>
        {props.partition.id}
      </th>
      <td>
        <Meter share={share()} label={`Load of partition ${props.partition.id}`} />
        <span>
          {rate(load().ruPerSecond)}
          <Show when={budget()}>{(most) => <> of {rate(most())}</>}</Show> RU/s
        </span>
      </td>
      <td class="number">
        {load().normalizedRu === null
          ? `${rate(load().busiestSecondRu)} RU`
          : percent(Math.min(load().normalizedRu ?? 0, 9.99))}
      </td>
      <td class="number" classList={{ bad: load().throttled > 0 }}>
        {load().throttled > 0 ? percent(load().throttledShare) : "–"}
      </td>
      <td>
        <Meter
          share={props.partition.sizeBytes / props.report.partitionSizeBytesMax}
          label={`Size of partition ${props.partition.id}`}
          isQuiet
        />
        <span>{bytes(props.partition.sizeBytes)}</span>
      </td>
      <td class="number">{integer(props.partition.items)}</td>
      <td class="number">{load().operationsPerSecond > 0 ? milliseconds(load().latencyMeanMs) : "–"}</td>
      <td class="mono hot-key">
        <Show when={hottest()} fallback={<span class="dim">–</span>}>
          {(key) => (
            <>
              <a
                href={`${pathOf(["c", props.report.database, props.report.container, "items"])}#key=${encodeURIComponent(key().key)}`}
              >
                {key().key}
              </a>{" "}
              {percent(key().share)}
            </>
          )}
        </Show>
      </td>
      <Show when={shards() > 1}>
        <td>{props.partition.shard}</td>
      </Show>
      <td class="dim next" title={props.partition.next}>
        {props.partition.next === "stays as it is" ? "–" : props.partition.next}
      </td>
      <Show when={mayWrite()}>
        <td class="do">
          <button
            type="button"
            class="plain"
            onClick={() => props.onRemedy({ kind: "split", partition: props.partition.id, at: "best" })}
          >
            Split
          </button>
          <Show when={right()}>
            {(other) => (
              <button
                type="button"
                class="plain"
                aria-label={`Merge ${props.partition.id} with ${other().id}`}
                onClick={() => props.onRemedy({ kind: "merge", partitions: [props.partition.id, other().id] })}
              >
                Merge
              </button>
            )}
          </Show>
          <Show when={shards() > 1}>
            <button
              type="button"
              class="plain"
              onClick={() => props.onRemedy({ kind: "move", partition: props.partition.id })}
            >
              Move
            </button>
          </Show>
        </td>
      </Show>
    </tr>
  );
}

/** A bar of a share; above nine tenths it is red, and its words say so too. */
export function Meter(props: { share: number; label: string; isQuiet?: boolean }): JSX.Element {
  const level = () => (props.isQuiet ? "" : props.share >= 0.9 ? "act" : props.share >= 0.6 ? "watch" : "");
  return (
    <span
      class="meter"
      role="meter"
      aria-label={props.label}
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow={Math.round(Math.min(props.share, 1) * 100)}
    >
      <span class={level()} style={{ width: `${Math.min(props.share, 1) * 100}%` }} />
    </span>
  );
}
