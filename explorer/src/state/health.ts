// What changes of the server while it runs: whether its shards take writes, and the room on its disk.

import { createSignal } from "solid-js";
import { readServer, type ServerInfo } from "../client/account";
import { server } from "./account";

type Health = Pick<ServerInfo, "shards" | "disk">;

const [latest, setLatest] = createSignal<Health | null>(null, {
  equals: (left, right) => JSON.stringify(left) === JSON.stringify(right),
});

/** As the server was last asked, at first when its page was opened. */
export const health = (): Health => latest() ?? server() ?? {};

/** Without an answer the last one stays: the tree says whether the server is away. */
export async function refreshHealth(): Promise<void> {
  const info = server() && (await readServer().catch(() => null));
  if (info) setLatest({ shards: info.shards ?? [], ...(info.disk ? { disk: info.disk } : {}) });
}

/** Why writes are refused; nothing while all shards take them. */
export function refusedWritesWords(): string {
  const shards = health().shards ?? [];
  const refusing = shards.filter(({ isWritable }) => isWritable === false).length;
  if (refusing === 0) return "";
  const subject =
    refusing === shards.length
      ? "Every write is refused"
      : `Writes to ${refusing} of ${shards.length} shards are refused`;
  return `${subject}: storing one has failed, as on a full or broken disk. Reads go on. Make room or replace the disk, then restart the server.`;
}
