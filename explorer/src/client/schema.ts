// What the items of a container look like, and what another indexing policy would mean: asked of the server, free of charge.

import { send } from "./request";
import { operatorOf } from "./names";

/** As many as a preview may look at: a small container is then predicted from all of its items. */
const SAMPLED = 5000;

interface Schema {
  paths: { path: string }[];
}

/** Paths such as `/tags/[]/id`, as far as a sample of the items has them. */
export async function readPaths(db: string, coll: string): Promise<string[]> {
  const reply = await send({ method: "GET", ...operatorOf(db, coll, "schema", "?sample=1000") });
  return (JSON.parse(reply.text) as Schema).paths.map(({ path }) => path);
}

interface ThenAndNow {
  now: number;
  then: number;
}

export interface IndexingPreview {
  isValid: boolean;
  errors: { path: string | null; words: string }[];
  sampled?: number;
  termsPerItem?: ThenAndNow | null;
  charge?: { create: ThenAndNow; replace: ThenAndNow } | null;
  rebuild?: { items: number; sizeBytes: number } | null;
  queries?: QueryFate[];
}

/** What becomes of a query. */
export interface QueryFate {
  query: string;
  /** What it was charged when it ran here last; null where that run has not read all rows. */
  measured: number | null;
  now: Prospect;
  then: Prospect;
}

export interface Prospect {
  way: "nothing" | "scan" | "index" | "order" | null;
  /** Predicted from a sample; null where that says too little. */
  charge: number | null;
  refusal: string | null;
}

export async function previewIndexing(
  db: string,
  coll: string,
  policy: string,
  queries: { text: string; parameters?: { name: string; value: string }[]; charge: number; state: string }[],
): Promise<IndexingPreview> {
  const asked = queries.map(({ text, parameters }) => {
    const given = (parameters ?? []).map(({ name, value }) => `{"name":${JSON.stringify(name)},"value":${value}}`);
    return `{"query":${JSON.stringify(text)},"parameters":[${given.join(",")}]}`;
  });
  const body = `{"indexingPolicy":${policy},"sample":${SAMPLED},"queries":[${asked.join(",")}]}`;
  const reply = await send({ method: "POST", ...operatorOf(db, coll, "indexing/preview"), body });
  const told = JSON.parse(reply.text) as IndexingPreview;
  const measured = (at: number) => (queries[at]?.state === "done" ? (queries[at]?.charge ?? null) : null);
  const fates = told.queries?.map((fate, at) => ({ ...fate, measured: measured(at) }));
  return fates ? { ...told, queries: fates } : told;
}
