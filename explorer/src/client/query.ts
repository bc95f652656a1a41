// Running a query page after page: by the operator's route where it is offered, which tells plan and figures, else by the
// protocol's. Rows stay the texts that they came as.

import { queryItems, type Query } from "./endpoints";
import { elements, members } from "./json";
import { operatorOf } from "./names";
import { send } from "./request";

export interface PlanBox {
  id: number | string;
  kind: string;
  label: string;
  inputs: (number | string)[];
  figures: Figures | null;
}

export interface Figures {
  rowsIn: number | null;
  rowsOut: number | null;
  postings: number | null;
  items: number | null;
  bytes: number | null;
  timeUs: number | null;
}

export interface RangeFigures {
  id: string;
  charge: number;
  elapsedMs: number;
  rows: number | null;
  items: number;
  postings: number;
  access: string;
}

export interface IndexUse {
  kind: string;
  path?: string;
  paths?: string[];
  filter?: string;
}

export interface QueryPage {
  rows: string[];
  continuation: string | null;
  charge: number;
  elapsedMs: number;
  plan: PlanBox[] | null;
  ranges: RangeFigures[];
  indexes: { used: IndexUse[]; possible: IndexUse[] } | null;
  advice: { id: string; words: string }[];
  metrics: string;
}

export async function runPage(
  db: string,
  coll: string,
  query: Query,
  options: { byOperator: boolean },
): Promise<QueryPage> {
  return options.byOperator ? byOperator(db, coll, query, "run") : byProtocol(db, coll, query);
}

export async function explain(db: string, coll: string, query: Query): Promise<QueryPage> {
  return byOperator(db, coll, query, "plan");
}

async function byOperator(db: string, coll: string, query: Query, mode: "run" | "plan"): Promise<QueryPage> {
  const { key, range } = query.scope ?? {};
  const scope = key ? `{"partitionKey":${key}}` : range ? `{"range":${JSON.stringify(range)}}` : null;
  const parameters = (query.parameters ?? []).map(
    ({ name, value }) => `{"name":${JSON.stringify(name)},"value":${value}}`,
  );
  const parts = [`"query":${JSON.stringify(query.text)}`, `"parameters":[${parameters.join(",")}]`, `"mode":"${mode}"`];
  if (scope) parts.push(`"scope":${scope}`);
  if (mode === "run") parts.push(`"maxItems":${query.maxItems}`);
  if (query.continuation) parts.push(`"continuation":${JSON.stringify(query.continuation)}`);
  const reply = await send({
    method: "POST",
    ...operatorOf(db, coll, "query"),
    body: `{${parts.join(",")}}`,
    ...(query.signal ? { signal: query.signal } : {}),
  });
  return readAnswer(reply.text);
}

/** Everything of the answer but its rows is a report, and parsed. */
export function readAnswer(text: string): QueryPage {
  const found: Record<string, unknown> = {};
  let rows: string[] = [];
  for (const { name, start, end } of members(text)) {
    if (name === "rows") rows = elements(text, start).map((span) => text.slice(span.start, span.end));
    else found[name] = JSON.parse(text.slice(start, end));
  }
  const told = found as Partial<Omit<QueryPage, "plan">> & { plan?: PlanBox[] | PlanBox | null };
  const plan = told.plan ? (Array.isArray(told.plan) ? told.plan : [told.plan]) : null;
  return {
    rows,
    plan,
    continuation: told.continuation ?? null,
    charge: told.charge ?? 0,
    elapsedMs: told.elapsedMs ?? 0,
    ranges: told.ranges ?? [],
    indexes: told.indexes ?? null,
    advice: told.advice ?? [],
    metrics: "",
  };
}

async function byProtocol(db: string, coll: string, query: Query): Promise<QueryPage> {
  const headers = {
    "x-ms-documentdb-populatequerymetrics": "true",
    "x-ms-cosmos-populateindexmetrics-V2": "true",
    ...query.headers,
  };
  const page = await queryItems(db, coll, { ...query, headers });
  const metrics = page.reply.header("x-ms-documentdb-query-metrics") ?? "";
  return {
    rows: page.rows,
    continuation: page.continuation,
    charge: page.charge,
    elapsedMs: page.reply.elapsedMs,
    plan: null,
    ranges: [],
    indexes: indexesOf(page.reply.header("x-ms-cosmos-index-utilization")),
    advice: [],
    metrics,
  };
}

interface Utilization {
  UtilizedIndexes?: Uses;
  PotentialIndexes?: Uses;
}

interface Uses {
  SingleIndexes?: { IndexSpec?: string }[];
  CompositeIndexes?: { IndexSpecs?: string[] }[];
}

function indexesOf(header: string | null): QueryPage["indexes"] {
  if (!header) return null;
  const told = JSON.parse(decodeURIComponent(header)) as Utilization;
  const list = (uses: Uses | undefined): IndexUse[] => [
    ...(uses?.SingleIndexes ?? []).map(({ IndexSpec }) => ({ kind: "single", path: IndexSpec ?? "" })),
    ...(uses?.CompositeIndexes ?? []).map(({ IndexSpecs }) => ({ kind: "composite", paths: IndexSpecs ?? [] })),
  ];
  return { used: list(told.UtilizedIndexes), possible: list(told.PotentialIndexes) };
}
