// The list of a container's items: a query, page after page, as the pane is scrolled. Late answers are dropped.

import { createSignal } from "solid-js";
import { isAborted } from "../../client/failure";
import { queryItems } from "../../client/endpoints";
import { patient } from "../../client/patient";
import type { Scope } from "../../client/endpoints";

export const PAGE_ITEMS = 100;
export const ROWS_MAX = 20_000;

export interface Wanted {
  text: string;
  scope: Scope;
}

export function queryText(filter: string, sort: string): string {
  const where = filter.trim() === "" ? "" : ` WHERE ${filter.trim()}`;
  const order = sort === "" ? "" : ` ORDER BY ${sort}`;
  return `SELECT * FROM c${where}${order}`;
}

export function createListing(db: string, coll: string) {
  const [rows, setRows] = createSignal<string[]>([]);
  const [isLoading, setLoading] = createSignal(false);
  const [isComplete, setComplete] = createSignal(false);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [charge, setCharge] = createSignal(0);
  /** How often the page that is being read was refused for want of throughput. */
  const [waits, setWaits] = createSignal(0);
  let wanted: Wanted | null = null;
  let continuation: string | null = null;
  let running: AbortController | null = null;

  const readPage = async (isFirst: boolean): Promise<void> => {
    if (!wanted) return;
    const mine = new AbortController();
    running = mine;
    setLoading(true);
    try {
      const asked = { ...wanted, maxItems: PAGE_ITEMS, continuation, signal: mine.signal };
      const page = await patient(() => queryItems(db, coll, asked), { signal: mine.signal, onWait: setWaits });
      if (running !== mine) return;
      setWaits(0);
      setRows(isFirst ? page.rows : [...rows(), ...page.rows]);
      setCharge((isFirst ? 0 : charge()) + page.charge);
      continuation = page.continuation;
      setComplete(continuation === null);
      setFailure(null);
    } catch (error) {
      if (running !== mine || isAborted(error)) return;
      setFailure(error);
    }
    if (running !== mine) return;
    running = null;
    setLoading(false);
    // A page may end early where a partition ends.
    if (continuation !== null && failure() === null && rows().length < PAGE_ITEMS / 2)
      await readPage(rows().length === 0);
  };

  return {
    rows,
    isLoading,
    isComplete,
    failure,
    charge,
    waits,
    isCut: () => rows().length >= ROWS_MAX && !isComplete(),
    ask(next: Wanted): Promise<void> {
      running?.abort();
      wanted = next;
      continuation = null;
      setComplete(false);
      return readPage(true);
    },
    again(): Promise<void> {
      return wanted ? this.ask(wanted) : Promise.resolve();
    },
    more(): Promise<void> {
      if (running || isComplete() || rows().length >= ROWS_MAX || continuation === null || failure())
        return Promise.resolve();
      return readPage(false);
    },
    stop(): void {
      running?.abort();
      running = null;
      setLoading(false);
    },
    drop(gone: ReadonlySet<number>): void {
      setRows(rows().filter((_, at) => !gone.has(at)));
    },
    put(at: number, row: string): void {
      setRows(rows().map((old, index) => (index === at ? row : old)));
    },
  };
}

export type Listing = ReturnType<typeof createListing>;
