// Global secondary indexes: their reports, and the orders of an operator.

import { get, offered } from "./account";
import { operator } from "./names";
import { send } from "./request";

export interface IndexReport {
  kind: string;
  /** Database and container, with a slash in between. */
  name: string;
  database: string;
  container: string;
  source: string;
  definition: string;
  status: string;
  /** Why it waits or has failed. */
  reason: string | null;
  /** Of the source's items, while it is built. */
  percent: number | null;
  lag: { changes: number; seconds: number };
  rows: number;
  counts: { refused: number };
  /** The refused items that are listed; `counts` has all. */
  refused: { partitionKey: unknown; id: string; reason: string }[];
  lastError: { message: string; time: number } | null;
}

/** Every index, or nothing where the server has none of their routes. */
export async function readIndexes(): Promise<IndexReport[] | null> {
  const answer = await offered(get<{ copies: IndexReport[] }>(operator("copies")));
  return answer && answer.copies.filter(({ kind }) => kind === "index");
}

export type IndexOrder = "pause" | "resume" | "rebuild";

export const orderIndex = ({ database, container }: IndexReport, order: IndexOrder) => {
  const name = [database, container].map(encodeURIComponent).join("/");
  return send({ method: "POST", ...operator(`copies/index/${name}/${order}`), body: "" });
};
