// Hottest keys and queries of the last minutes, and the largest keys: three tables of the same make.

import { createMemo, For, Show, type JSX } from "solid-js";
import type { Partition, Report } from "../../client/reports";
import { bytes, integer, percent, rate } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { pathOf } from "../../kit/router";
import { dearestQueries, hottestKeys, largestKeys } from "./hot-lists";

interface HotColumn<T> {
  name: string;
  isNumber?: boolean;
  title?: (row: T) => string;
  cell: (row: T) => JSX.Element;
}

function HotTable<T>(props: {
  id: string;
  title: string;
  window: string;
  empty: string;
  rows: T[];
  columns: HotColumn<T>[];
}): JSX.Element {
  return (
    <section aria-labelledby={props.id}>
      <h2 id={props.id}>
        {props.title} <span class="dim">{props.window}</span>
      </h2>
      <Show when={props.rows.length > 0} fallback={<p class="dim">{props.empty}</p>}>
        <table class="plain">
          <Heads names={props.columns.map(({ name, isNumber }) => (isNumber ? { number: name } : name))} />
          <tbody>
            <For each={props.rows}>
              {(row) => (
                <tr>
                  <For each={props.columns}>
                    {(column) => (
                      <td classList={{ number: column.isNumber === true }} title={column.title?.(row)}>
                        {column.cell(row)}
                      </td>
                    )}
                  </For>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </Show>
    </section>
  );
}

export function Hot(props: { report: Report }): JSX.Element {
  const at = () => ["c", props.report.database, props.report.container];
  const partitions = (): Partition[] => props.report.partitions;
  const keys = createMemo(() => hottestKeys(partitions()));
  const queries = createMemo(() => dearestQueries(partitions()));
  const largest = createMemo(() => largestKeys(partitions()));
  const Key = (cell: { key: string }): JSX.Element => (
    <a class="mono hot-key" href={`${pathOf([...at(), "items"])}#key=${encodeURIComponent(cell.key)}`}>
      {cell.key}
    </a>
  );
  return (
    <div class="trio">
      <HotTable
        id="hot-keys"
        title="Hottest keys"
        window="last 5 to 10 min"
        empty="No traffic was counted."
        rows={keys()}
        columns={[
          { name: "Key", cell: ({ key }) => <Key key={key} /> },
          { name: "Partition", cell: ({ partition }) => partition },
          {
            name: "RU",
            isNumber: true,
            title: ({ errorRu }) => `at most ${rate(errorRu)} RU too high`,
            cell: ({ ru, errorRu }) => `${rate(ru)}${errorRu > 0 ? " ±" : ""}`,
          },
          { name: "Share", isNumber: true, cell: ({ share }) => percent(share) },
        ]}
      />
      <HotTable
        id="hot-queries"
        title="Dearest queries"
        window="last 5 to 10 min"
        empty="No query was counted."
        rows={queries()}
        columns={[
          {
            name: "Template",
            cell: ({ template }) => (
              <a class="mono" href={`${pathOf([...at(), "query"])}#q=${encodeURIComponent(template)}`}>
                {template}
              </a>
            ),
          },
          {
            name: "Partitions",
            isNumber: true,
            title: (row) => `partitions ${row.partitions.join(", ")}`,
            cell: (row) => integer(row.partitions.length),
          },
          { name: "RU", isNumber: true, cell: ({ ru }) => rate(ru) },
          { name: "Share", isNumber: true, title: () => "of what queries cost", cell: ({ share }) => percent(share) },
        ]}
      />
      <HotTable
        id="large-keys"
        title="Largest keys"
        window={`limit ${bytes(props.report.logicalPartitionSizeBytesMax)}`}
        empty="There are no items."
        rows={largest()}
        columns={[
          { name: "Key", cell: ({ key }) => <Key key={key} /> },
          { name: "Items", isNumber: true, cell: ({ items }) => integer(items) },
          {
            name: "Size",
            isNumber: true,
            title: ({ sizeBytes }) => `${percent(sizeBytes / props.report.logicalPartitionSizeBytesMax)} of the limit`,
            cell: ({ sizeBytes }) => bytes(sizeBytes),
          },
        ]}
      />
    </div>
  );
}
