// A table of any length: only the rows that are seen exist. Arrow keys move, Space selects, Enter opens.
//
// The table is one stop of the Tab key; the row of the cursor is told to screen readers by `aria-activedescendant`.

import {
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
  For,
  on,
  onCleanup,
  onMount,
  Show,
  type JSX,
} from "solid-js";

export interface Column {
  name: string;
  title?: string;
  /** A track of a CSS grid: `90px`, `minmax(80px, 1fr)`. */
  width: string;
  isNumber?: boolean;
  /** Sorting by this column is offered. */
  sort?: () => void;
  sorted?: "ascending" | "descending" | "none";
}

export interface TableProps {
  label: string;
  columns: Column[];
  count: number;
  /** What the rows are of: where it changes, the table begins at its top again. */
  of?: unknown;
  cell: (row: number, column: number) => JSX.Element;
  cursor: number;
  onCursor: (row: number) => void;
  onOpen?: (row: number) => void;
  isSelected?: (row: number) => boolean;
  onSelect?: (row: number, how: "toggle" | "extend") => void;
  /** The rows from here on come into sight soon. */
  onNear?: (row: number) => void;
  onKey?: (event: KeyboardEvent) => void;
  rowHeight?: number;
  /** A click opens, as Enter does; else only a double click. */
  opensOnClick?: boolean;
}

const OVERSCAN = 6;

export function Table(props: TableProps): JSX.Element {
  const id = createUniqueId();
  const height = () => props.rowHeight ?? 26;
  const [top, setTop] = createSignal(0);
  const [room, setRoom] = createSignal(600);
  let body!: HTMLDivElement;

  const first = createMemo(() => Math.max(0, Math.floor(top() / height()) - OVERSCAN));
  const last = createMemo(() => Math.min(props.count, Math.ceil((top() + room()) / height()) + OVERSCAN));
  const shown = createMemo(() => Array.from({ length: Math.max(0, last() - first()) }, (_, at) => first() + at));
  const tracks = () => props.columns.map((column) => column.width).join(" ");
  /** Below this width the table scrolls sideways: the sum of the least widths. */
  const least = () => props.columns.reduce((sum, { width }) => sum + Number(/(\d+)px/.exec(width)?.[1] ?? "60"), 0);

  onMount(() => {
    const watch = new ResizeObserver(() => setRoom(body.clientHeight || 600));
    watch.observe(body);
    onCleanup(() => watch.disconnect());
  });
  createEffect(() => props.onNear?.(last()));
  createEffect(
    on(
      () => props.of,
      () => (body.scrollTop = 0),
      { defer: true },
    ),
  );
  createEffect(() => show(props.cursor));

  const show = (row: number) => {
    if (row < 0) return;
    const head = height();
    const from = row * height();
    if (from < body.scrollTop) body.scrollTop = from;
    else if (from + height() > body.scrollTop + body.clientHeight - head)
      body.scrollTop = from + height() * 2 - body.clientHeight;
  };

  const move = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(room() / height()) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -props.count,
      End: props.count,
    };
    const step = steps[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step !== undefined && props.count > 0) {
      const next = Math.min(Math.max(props.cursor + step, 0), props.count - 1);
      if (event.shiftKey) props.onSelect?.(next, "extend");
      props.onCursor(next);
    } else if (event.key === "Enter" && props.cursor >= 0) props.onOpen?.(props.cursor);
    else if (event.key === " " && props.cursor >= 0) props.onSelect?.(props.cursor, "toggle");
    else return props.onKey?.(event);
    event.preventDefault();
    event.stopPropagation();
  };

  const press = (event: MouseEvent, row: number) => {
    if (event.shiftKey && props.onSelect) props.onSelect(row, "extend");
    else if ((event.ctrlKey || event.metaKey) && props.onSelect) props.onSelect(row, "toggle");
    props.onCursor(row);
    const isPlain = !event.shiftKey && !event.ctrlKey && !event.metaKey;
    if (isPlain && props.opensOnClick) props.onOpen?.(row);
  };

  return (
    <div
      class="table"
      role="grid"
      tabindex="0"
      aria-label={props.label}
      aria-rowcount={props.count + 1}
      aria-multiselectable={props.onSelect ? "true" : undefined}
      aria-activedescendant={props.cursor >= first() && props.cursor < last() ? `${id}-${props.cursor}` : undefined}
      ref={body}
      style={{ "--tracks": tracks(), "--row": `${height()}px`, "--least": `${least()}px` }}
      onScroll={() => setTop(body.scrollTop)}
      onKeyDown={move}
    >
      <div class="table-head" role="row" aria-rowindex="1">
        <For each={props.columns}>
          {(column) => (
            <div
              class="cell"
              classList={{ number: column.isNumber === true }}
              role="columnheader"
              aria-sort={column.sorted}
              title={column.title}
            >
              <Show when={column.sort} fallback={column.name}>
                <button type="button" class="plain" tabindex="-1" onClick={() => column.sort?.()}>
                  {column.name}
                  {column.sorted === "ascending" ? " ↑" : column.sorted === "descending" ? " ↓" : ""}
                </button>
              </Show>
            </div>
          )}
        </For>
      </div>
      <div class="table-rows" role="rowgroup" style={{ height: `${props.count * height()}px` }}>
        <For each={shown()}>
          {(row) => (
            <div
              class="table-row"
              role="row"
              id={`${id}-${row}`}
              aria-rowindex={row + 2}
              aria-selected={props.onSelect ? props.isSelected?.(row) === true : row === props.cursor}
              classList={{ cursor: row === props.cursor, selected: props.isSelected?.(row) === true }}
              style={{ top: `${row * height()}px` }}
              onClick={(event) => press(event, row)}
              onDblClick={() => props.onOpen?.(row)}
            >
              <For each={props.columns}>
                {(column, at) => (
                  <div class="cell" classList={{ number: column.isNumber === true }} role="gridcell">
                    {props.cell(row, at())}
                  </div>
                )}
              </For>
            </div>
          )}
        </For>
      </div>
    </div>
  );
}
