// What the items of a container look like, and what another indexing policy would mean: asked of the server, free of charge.

import { send } from "./request";
import { operatorOf } from "./names";

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
}

export async function previewIndexing(db: string, coll: string, policy: string): Promise<IndexingPreview> {
  const body = `{"indexingPolicy":${policy},"sample":200}`;
  const reply = await send({ method: "POST", ...operatorOf(db, coll, "indexing/preview"), body });
  return JSON.parse(reply.text) as IndexingPreview;
}
