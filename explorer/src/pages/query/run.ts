// One run of a query: page after page into one result until a maximum, stopped at any moment.

import { createSignal } from "solid-js";
import { asServerError, isAborted, type ServerError } from "../../client/failure";
import type { Query } from "../../client/endpoints";
import { patient } from "../../client/patient";
import { runPage, type QueryPage, type RangeFigures } from "../../client/query";

export interface Asked {
  query: Omit<Query, "signal" | "continuation">;
  rowsMax: number;
  byOperator: boolean;
}

export function createRun(db: string, coll: string) {
  const [rows, setRows] = createSignal<string[]>([]);
  const [state, setState] = createSignal<"idle" | "running" | "stopped" | "done" | "cut" | "failed">("idle");
  const [failure, setFailure] = createSignal<ServerError | null>(null);
  const [charge, setCharge] = createSignal(0);
  const [elapsedMs, setElapsed] = createSignal(0);
  const [pages, setPages] = createSignal(0);
  const [page, setPage] = createSignal<QueryPage | null>(null);
  const [ranges, setRanges] = createSignal<RangeFigures[]>([]);
  /** How often the page that is being read was refused for want of throughput. */
  const [waits, setWaits] = createSignal(0);
  let running: AbortController | null = null;

  const reset = () => {
    setRows([]);
    setFailure(null);
    setCharge(0);
    setElapsed(0);
    setPages(0);
    setPage(null);
    setRanges([]);
    setWaits(0);
  };
  const take = (next: QueryPage) => {
    setWaits(0);
    setRows([...rows(), ...next.rows]);
    setCharge(charge() + next.charge);
    setElapsed(elapsedMs() + next.elapsedMs);
    setPages(pages() + 1);
    setPage(next.plan || !page()?.plan ? next : { ...next, plan: page()?.plan ?? null });
    setRanges(sumRanges(ranges(), next.ranges));
  };
  return {
    rows,
    state,
    failure,
    charge,
    elapsedMs,
    pages,
    page,
    ranges,
    waits,
    show(answer: QueryPage): void {
      reset();
      setPage(answer);
      setState("done");
    },
    fail(error: unknown): void {
      reset();
      setFailure(asServerError(error));
      setState("failed");
    },
    stop(): void {
      running?.abort();
    },
    async start({ query, rowsMax, byOperator }: Asked): Promise<void> {
      running?.abort();
      const mine = new AbortController();
      running = mine;
      reset();
      setState("running");
      let continuation: string | null = null;
      try {
        do {
          const asked = { ...query, continuation, signal: mine.signal };
          const waiting = { signal: mine.signal, onWait: setWaits };
          const next: QueryPage = await patient(() => runPage(db, coll, asked, { byOperator }), waiting);
          if (running !== mine) return;
          take(next);
          continuation = next.continuation;
        } while (continuation !== null && rows().length < rowsMax);
        setState(continuation === null ? "done" : "cut");
      } catch (error) {
        if (running !== mine) return;
        if (isAborted(error)) return void setState("stopped");
        setFailure(asServerError(error));
        setState("failed");
      }
    },
  };
}

export type Run = ReturnType<typeof createRun>;

/** Figures of pages added up, range by range. */
export function sumRanges(known: RangeFigures[], more: RangeFigures[]): RangeFigures[] {
  const byId = new Map(known.map((range) => [range.id, range]));
  for (const range of more) {
    const before = byId.get(range.id);
    const rows = before?.rows === null || range.rows === null ? null : (before?.rows ?? 0) + range.rows;
    byId.set(
      range.id,
      !before
        ? range
        : {
            ...range,
            rows,
            charge: before.charge + range.charge,
            elapsedMs: before.elapsedMs + range.elapsedMs,
            items: before.items + range.items,
            postings: before.postings + range.postings,
          },
    );
  }
  return [...byId.values()];
}
