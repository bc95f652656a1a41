// Hottest keys and queries of the last minutes, and the largest keys.

import { createMemo, For, Show, type JSX } from "solid-js";
import type { Report } from "../../client/reports";
import { bytes, integer, percent, rate } from "../../kit/format";
import { pathOf } from "../../kit/router";

const SHOWN_MAX = 10;

export function Hot(props: { report: Report }): JSX.Element {
  const at = () => ["c", props.report.database, props.report.container];
  const keys = createMemo(() =>
    top(
      props.report,
      ({ hottestKeys }) => hottestKeys,
      ({ ru }) => ru,
    ),
  );
  const queries = createMemo(() =>
    top(
      props.report,
      ({ hottestQueries }) => hottestQueries,
      ({ ru }) => ru,
    ),
  );
  const largest = createMemo(() =>
    top(
      props.report,
      ({ largestKeys }) => largestKeys,
      ({ sizeBytes }) => sizeBytes,
    ),
  );
  const keyLink = (key: string) => `${pathOf([...at(), "items"])}#key=${encodeURIComponent(key)}`;
  return (
    <div class="trio">
      <section aria-labelledby="hot-keys">
        <h2 id="hot-keys">
          Hottest keys <span class="dim">last 5 to 10 min</span>
        </h2>
        <Show when={keys().length > 0} fallback={<p class="dim">No traffic was counted.</p>}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">Partition</th>
                <th scope="col" class="number">
                  RU
                </th>
                <th scope="col" class="number">
                  Share
                </th>
              </tr>
            </thead>
            <tbody>
              <For each={keys()}>
                {({ partition, value }) => (
                  <tr>
                    <td class="mono hot-key">
                      <a href={keyLink(value.key)}>{value.key}</a>
                    </td>
                    <td>{partition}</td>
                    <td class="number" title={`at most ${rate(value.errorRu)} RU too high`}>
                      {rate(value.ru)}
                      {value.errorRu > 0 ? " ±" : ""}
                    </td>
                    <td class="number">{percent(value.share)}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </Show>
      </section>
      <section aria-labelledby="hot-queries">
        <h2 id="hot-queries">
          Dearest queries <span class="dim">last 5 to 10 min</span>
        </h2>
        <Show when={queries().length > 0} fallback={<p class="dim">No query was counted.</p>}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Template</th>
                <th scope="col" class="number">
                  RU
                </th>
                <th scope="col" class="number">
                  Share
                </th>
              </tr>
            </thead>
            <tbody>
              <For each={queries()}>
                {({ value }) => (
                  <tr>
                    <td class="mono">
                      <a href={`${pathOf([...at(), "query"])}#q=${encodeURIComponent(textOf(value))}`}>
                        {textOf(value)}
                      </a>
                    </td>
                    <td class="number">{rate(value.ru)}</td>
                    <td class="number">{percent(value.share)}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </Show>
      </section>
      <section aria-labelledby="large-keys">
        <h2 id="large-keys">
          Largest keys <span class="dim">limit {bytes(props.report.logicalPartitionSizeBytesMax)}</span>
        </h2>
        <Show when={largest().length > 0} fallback={<p class="dim">There are no items.</p>}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col" class="number">
                  Items
                </th>
                <th scope="col" class="number">
                  Size
                </th>
              </tr>
            </thead>
            <tbody>
              <For each={largest()}>
                {({ value }) => (
                  <tr>
                    <td class="mono hot-key">
                      <a href={keyLink(value.key)}>{value.key}</a>
                    </td>
                    <td class="number">{integer(value.items)}</td>
                    <td class="number">{bytes(value.sizeBytes)}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </Show>
      </section>
    </div>
  );
}

const textOf = (value: { template?: string; text?: string }): string => value.template ?? value.text ?? "";

function top<T>(
  report: Report,
  of: (partition: Report["partitions"][number]) => T[],
  weight: (value: T) => number,
): { partition: string; value: T }[] {
  const all = report.partitions.flatMap((partition) =>
    of(partition).map((value) => ({ partition: partition.id, value })),
  );
  return all.sort((left, right) => weight(right.value) - weight(left.value)).slice(0, SHOWN_MAX);
}
