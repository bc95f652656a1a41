// The tree of databases and containers: filtered as one types, and only the rows that are seen exist.

import { createMemo, createSignal, createUniqueId, For, onCleanup, onMount, Show, type JSX } from "solid-js";
import { go, place } from "../kit/router";
import { short } from "../kit/short";
import { later } from "../kit/later";
import { NOTHING_WRONG } from "../client/account";
import { Drawing } from "../kit/drawing";
import { containers, databases, findings, mayWrite, access } from "../state/account";
import { setTreeShown } from "../state/settings";
import { CLOSED, OPEN, PLUS } from "./icons";

const NewContainer = later("The form", async () => (await import("../parts/new-container")).NewContainer);

type Row = { db: string; coll: string | null; items: number };
const ROW = 26;

export function Tree(): JSX.Element {
  const id = createUniqueId();
  const [filter, setFilter] = createSignal("");
  const [closed, setClosed] = createSignal<ReadonlySet<string>>(new Set());
  const [top, setTop] = createSignal(0);
  const [room, setRoom] = createSignal(800);
  const [cursor, setCursor] = createSignal(-1);
  const [isCreating, setCreating] = createSignal(false);
  let list!: HTMLDivElement;

  const rows = createMemo(() => rowsOf(filter().trim().toLowerCase(), closed()));
  const first = () => Math.max(0, Math.floor(top() / ROW) - 8);
  /** By number, so that a row stays the same element while its count of items changes: a click on it is not lost. */
  const shown = createMemo(() => {
    const last = Math.min(rows().length, Math.ceil((top() + room()) / ROW) + 8);
    return Array.from({ length: Math.max(0, last - first()) }, (_, at) => first() + at);
  });

  onMount(() => {
    const watch = new ResizeObserver(() => setRoom(list.clientHeight || 800));
    watch.observe(list);
    onCleanup(() => watch.disconnect());
  });

  const toggle = (db: string) => {
    const next = new Set(closed());
    if (!next.delete(db)) next.add(db);
    setClosed(next);
  };
  const open = (row: Row | undefined) => {
    if (!row) return;
    go(row.coll === null ? ["db", row.db] : ["c", row.db, row.coll, tabToKeep()]);
    if (matchMedia("(max-width: 760px)").matches) setTreeShown(false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows()[cursor()];
    if (event.key === "ArrowDown") setCursor(Math.min(cursor() + 1, rows().length - 1));
    else if (event.key === "ArrowUp") setCursor(Math.max(cursor() - 1, 0));
    else if (event.key === "Enter") open(row);
    else if (
      row?.coll === null &&
      (event.key === "ArrowLeft") === !closed().has(row.db) &&
      event.key.startsWith("Arrow")
    )
      toggle(row.db);
    else return;
    event.preventDefault();
    const place = cursor() * ROW;
    if (place < list.scrollTop || place + ROW > list.scrollTop + list.clientHeight)
      list.scrollTop = place - list.clientHeight / 2;
  };

  return (
    <nav class="tree" aria-label="Containers">
      <div class="tree-filter">
        <input
          type="search"
          id="tree-filter"
          aria-label="Filter containers"
          placeholder="Filter"
          value={filter()}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <div
        class="tree-rows"
        role="tree"
        aria-label="Databases and containers"
        tabindex="0"
        ref={list}
        aria-activedescendant={cursor() >= 0 ? `${id}-${cursor()}` : undefined}
        onScroll={() => setTop(list.scrollTop)}
        onKeyDown={onKeyDown}
      >
        <div class="tree-inner" role="none" style={{ height: `${rows().length * ROW}px` }}>
          <For each={shown()}>
            {(at) => (
              <Show when={rows()[at]}>
                {(row) => (
                  <TreeRow
                    row={row()}
                    id={`${id}-${at}`}
                    top={at * ROW}
                    isClosed={closed().has(row().db)}
                    isCursor={at === cursor()}
                    toggle={() => toggle(row().db)}
                    open={() => open(row())}
                  />
                )}
              </Show>
            )}
          </For>
        </div>
      </div>
      <Show when={mayWrite() && access() === "full"}>
        <div class="tree-foot">
          <button type="button" onClick={() => setCreating(true)}>
            <Drawing path={PLUS} /> New container
          </button>
        </div>
      </Show>
      <Show when={isCreating()}>
        <NewContainer onClose={() => setCreating(false)} />
      </Show>
    </nav>
  );
}

interface TreeRowProps {
  row: Row;
  id: string;
  top: number;
  isClosed: boolean;
  isCursor: boolean;
  toggle: () => void;
  open: () => void;
}

function TreeRow(props: TreeRowProps): JSX.Element {
  const isHere = () => {
    const [kind, db, coll] = place().segments;
    return props.row.coll === null
      ? kind === "db" && db === props.row.db
      : kind === "c" && db === props.row.db && coll === props.row.coll;
  };
  const severity = () => {
    const found = findings().get(`${props.row.db}/${props.row.coll}`) ?? [];
    return found.some((finding) => finding.kind !== NOTHING_WRONG) ? "act" : "";
  };
  return (
    <div
      role="treeitem"
      id={props.id}
      class="tree-row"
      classList={{ container: props.row.coll !== null, here: isHere(), cursor: props.isCursor }}
      aria-level={props.row.coll === null ? 1 : 2}
      aria-expanded={props.row.coll === null ? !props.isClosed : undefined}
      aria-selected={isHere()}
      style={{ top: `${props.top}px` }}
      onClick={() => props.open()}
    >
      <Show
        when={props.row.coll === null}
        fallback={
          <span class="dot" classList={{ act: severity() === "act" }} title={severity() ? "has findings" : undefined} />
        }
      >
        <span
          class="twist"
          onClick={(event) => {
            event.stopPropagation();
            props.toggle();
          }}
        >
          <Drawing path={props.isClosed ? CLOSED : OPEN} />
        </span>
      </Show>
      <span class="name" title={props.row.coll ?? props.row.db}>
        {props.row.coll ?? props.row.db}
      </span>
      <Show when={props.row.coll !== null}>
        <span class="dim">{short(props.row.items)}</span>
      </Show>
    </div>
  );
}

/** Another container opens at the page that one is looking at. */
function tabToKeep(): string {
  const { segments } = place();
  return segments[0] === "c" && segments.length === 4 ? (segments[3] ?? "items") : "items";
}

function rowsOf(wanted: string, closed: ReadonlySet<string>): Row[] {
  const byDatabase = new Map<string, Row[]>(databases().map((db) => [db, []]));
  for (const { database, container, items } of containers()) {
    const list = byDatabase.get(database) ?? [];
    byDatabase.set(database, list);
    list.push({ db: database, coll: container, items });
  }
  const rows: Row[] = [];
  for (const db of [...byDatabase.keys()].sort()) {
    const isWanted = db.toLowerCase().includes(wanted);
    const children = (byDatabase.get(db) ?? []).filter((row) => isWanted || row.coll?.toLowerCase().includes(wanted));
    if (!isWanted && children.length === 0) continue;
    rows.push({ db, coll: null, items: 0 });
    if (closed.has(db) && wanted === "") continue;
    rows.push(...children.sort((left, right) => ((left.coll ?? "") < (right.coll ?? "") ? -1 : 1)));
  }
  return rows;
}
