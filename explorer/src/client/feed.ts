// The change feed of a container, page by page: latest versions, or all versions and deletes.

import { send } from "./request";
import { rowsOf } from "./json";
import { keyHeader } from "./key";
import { container, feed } from "./names";

export interface FeedAsk {
  mode: "latest" | "all";
  /** An etag, or `*` for now, or nothing for the beginning. */
  etag: string | null;
  key: string | null;
  waitMs: number;
  signal: AbortSignal;
}

export interface FeedPage {
  changes: string[];
  etag: string;
  charge: number;
}

export async function readFeed(db: string, coll: string, ask: FeedAsk): Promise<FeedPage> {
  const headers: Record<string, string> = {
    "a-im": ask.mode === "all" ? "Full-Fidelity Feed" : "Incremental feed",
    "x-ms-max-item-count": "100",
    "x-shardlake-feed-wait-ms": String(ask.waitMs),
    ...(ask.mode === "all" ? { "x-shardlake-feed-previous": "true" } : {}),
    ...(ask.etag ? { "if-none-match": ask.etag } : {}),
    ...(ask.key ? keyHeader(ask.key) : {}),
  };
  const reply = await send({ method: "GET", ...feed("docs", container(db, coll)), headers, signal: ask.signal });
  const changes = reply.status === 304 ? [] : rowsOf(reply.text);
  return { changes, etag: reply.header("etag") ?? ask.etag ?? "", charge: reply.charge };
}
