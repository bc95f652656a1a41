// The items as a table, and the line below it.

import { createMemo, Show, type JSX } from "solid-js";
import { valueAt } from "../../client/json";
import { clock, day, integer, plural, ru } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { Table, type Column } from "../../kit/table";
import { Cell } from "../../parts/cell";
import type { ItemColumn } from "./columns";
import { nextSort, sortedBy } from "./sort";
import { ROWS_MAX } from "./listing";

interface ItemTableProps {
  columns: ItemColumn[];
  /** As it stands in the query. */
  sort: string;
  onSort: (sort: string) => void;
  rows: string[];
  /** The query and its scope. */
  wanted: unknown;
  cursor: number;
  selected: ReadonlySet<number>;
  onCursor: (row: number) => void;
  onOpen: (row: number) => void;
  onSelect: (row: number, how: "toggle" | "extend") => void;
  onNear: (row: number) => void;
}

export function ItemTable(props: ItemTableProps): JSX.Element {
  const columns = createMemo((): Column[] => [
    { name: "✓", title: "chosen rows", width: "34px" },
    ...props.columns.map(({ name, path, isKey, isNumber }) => ({
      name,
      isNumber,
      sorted: sortedBy(props.sort, path),
      sort: () => props.onSort(nextSort(props.sort, path)),
      width: name === "_ts" ? "160px" : name === "id" ? "minmax(150px, 1.2fr)" : "minmax(110px, 1fr)",
      ...(isKey ? { title: "partition key" } : {}),
    })),
  ]);
  const cell = (row: number, column: number): JSX.Element => {
    const text = props.rows[row] ?? "{}";
    if (column === 0) {
      return (
        <span
          class="pick"
          aria-hidden="true"
          onClick={(event) => {
            event.stopPropagation();
            props.onSelect(row, "toggle");
          }}
        >
          {props.selected.has(row) ? "☑" : "☐"}
        </span>
      );
    }
    const wanted = props.columns[column - 1];
    if (!wanted) return "";
    const token = valueAt(text, wanted.path);
    if (wanted.name === "_ts" && token) return <span class="dim">{timeWords(token)}</span>;
    return <Cell token={token} />;
  };
  return (
    <Table
      label="Items"
      columns={columns()}
      count={props.rows.length}
      of={props.wanted}
      cell={cell}
      cursor={props.cursor}
      onCursor={(row) => {
        props.onCursor(row);
      }}
      onOpen={props.onOpen}
      isSelected={(row) => props.selected.has(row)}
      onSelect={props.onSelect}
      onNear={props.onNear}
      opensOnClick
    />
  );
}

function timeWords(token: string): string {
  const time = new Date(Number(token) * 1000);
  return Number.isNaN(time.getTime()) ? token : `${day(time)} ${clock(time)}`;
}

interface FootProps {
  mayWrite: boolean;
  count: number;
  total: number | undefined;
  isComplete: boolean;
  isCut: boolean;
  selected: number;
  charge: number;
  query: string;
  onDelete: () => void;
}

export function Foot(props: FootProps): JSX.Element {
  const words = () =>
    props.isComplete
      ? `all ${plural(props.count, "item")}`
      : `${integer(props.count)}${props.total === undefined ? "" : ` of ${integer(props.total)}`} items`;
  return (
    <div class="foot" role="status">
      <span>{words()}</span>
      <Show when={props.isCut}>
        <span class="warn">cut at {integer(ROWS_MAX)} rows: narrow the filter, or export</span>
      </Show>
      <span>{ru(props.charge)}</span>
      <Show when={props.selected > 0}>
        <span>{integer(props.selected)} selected</span>
        <Show when={props.mayWrite}>
          <button type="button" class="danger" onClick={() => props.onDelete()}>
            <Icon name="trash" /> Delete selected
          </button>
        </Show>
      </Show>
      <span class="spacer" />
      <code class="optional query-words" title={props.query}>
        {props.query}
      </code>
    </div>
  );
}
