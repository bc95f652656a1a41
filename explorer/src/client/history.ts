// Queries that were run in this browser, with what they cost. They hold data, so they stay here and can be cleared.

import { get, put } from "./store";

export interface Ran {
  db: string;
  coll: string;
  text: string;
  /** Values as JSON texts. */
  parameters?: { name: string; value: string }[];
  charge: number;
  elapsedMs: number;
  rows: number;
  at: number;
  state: string;
}

const KEPT_MAX = 500;

export async function history(): Promise<Ran[]> {
  return (await get<Ran[]>("history", "queries")) ?? [];
}

export async function remember(ran: Ran): Promise<void> {
  await put("history", "queries", [ran, ...(await history())].slice(0, KEPT_MAX));
}

/** Different queries of a container that ran well, the latest first. */
export async function latestOf(db: string, coll: string, most: number): Promise<Ran[]> {
  const found = new Map<string, Ran>();
  for (const ran of await history()) {
    const isOurs = ran.db === db && ran.coll === coll && ran.state !== "failed";
    if (isOurs && !found.has(ran.text)) found.set(ran.text, ran);
  }
  return [...found.values()].slice(0, most);
}
