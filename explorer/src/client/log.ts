// The server's own log: the lines that it keeps in memory.

import { send } from "./request";
import { operator } from "./names";

export interface LogLine {
  time: number;
  level: string;
  target: string;
  message: string;
  fields: Record<string, unknown>;
}

export interface LogPage {
  sequence: number;
  dropped: number;
  lines: LogLine[];
}

export async function readLog(level: string, since: number | null): Promise<LogPage> {
  const query = `?level=${level}&limit=500${since === null ? "" : `&since=${since}`}`;
  const reply = await send({ method: "GET", ...operator("log", query) });
  return JSON.parse(reply.text) as LogPage;
}
