// Rules that keep denormalised copies true: list, pause, resume, delete.

import { send } from "./request";
import { operator } from "./names";

export interface Projection {
  id: string;
  state: string;
  reason: string | null;
  lag: { changes: number; seconds: number };
  counts: { changes: number; applied: number; unchanged: number; deadLetters: number };
  lastError: string | null;
  rule: {
    source: { database: string; container: string };
    target: { database: string; container: string };
    deadLetters?: string;
    [member: string]: unknown;
  };
}

export async function readProjections(): Promise<Projection[]> {
  const reply = await send({ method: "GET", ...operator("projections") });
  return (JSON.parse(reply.text) as { projections: Projection[] }).projections;
}

const of = (id: string, rest = "") => operator(`projections/${encodeURIComponent(id)}${rest}`);

export const pauseProjection = (id: string) => send({ method: "POST", ...of(id, "/pause"), body: "" });
export const resumeProjection = (id: string) => send({ method: "POST", ...of(id, "/resume"), body: "" });
export const deleteProjection = (id: string) => send({ method: "DELETE", ...of(id) });
export const putProjection = (id: string, rule: string) => send({ method: "PUT", ...of(id), body: rule });
