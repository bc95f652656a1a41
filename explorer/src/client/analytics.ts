// The analytical store of a container: its report, and the orders of an operator.

import { asServerError } from "./failure";
import { operator, operatorOf } from "./names";
import { send } from "./request";

export interface TableColumn {
  name: string;
  type: string;
  /** Name of the property where the column's differs. */
  property?: string;
}

export interface TableSettings {
  schema?: "wellDefined" | "fullFidelity";
  clusterBy?: string[];
  exclude?: string[];
  /** A text where a form has no number. */
  lagSeconds?: number | string | null;
}

export interface TableReport {
  state: string;
  reason: string | null;
  percent: number | null;
  ttl: number;
  settings: TableSettings;
  location: string | null;
  lag: { changes: number; seconds: number };
  /** Seconds since the Unix epoch: everything before is in the table. */
  completeTo: number | null;
  figures: {
    version: number | null;
    generation: number;
    rows: number;
    rowsDeleted: number;
    files: number;
    sizeBytes: number;
    jsonBytes: number;
    columns: TableColumn[];
    pendingWidenings: string[];
  };
  counts: {
    copiedItems: number;
    lostHistory: number;
    restValues: Record<string, number>;
    restPaths: string[];
  };
  orders: { number: number; order: string; outcome: string; isRight: boolean; time: number }[];
  lastError: { message: string; time: number } | null;
}

/** The report, or nothing where the container has no analytical store. */
export async function readTable(db: string, coll: string): Promise<TableReport | null> {
  try {
    const reply = await send({ method: "GET", ...operatorOf(db, coll, "analytics") });
    return JSON.parse(reply.text) as TableReport;
  } catch (failure) {
    const { status, message } = asServerError(failure);
    if (status === 404 && message.includes("AnalyticsNotEnabled")) return null;
    throw failure;
  }
}

/** Replaces the settings; with `rebuild`, the table is made anew. */
export const setTable = (db: string, coll: string, settings: TableSettings, rebuild: boolean) =>
  send({
    method: "PUT",
    ...operatorOf(db, coll, "analytics"),
    body: JSON.stringify(rebuild ? { ...settings, rebuild } : settings),
  });

export type TableOrder = "pause" | "resume" | "compact" | "verify" | "rebuild";

export const orderTable = (db: string, coll: string, order: TableOrder) =>
  send({ method: "POST", ...operatorOf(db, coll, `analytics/${order}`), body: "" });

export interface NamedTable {
  database: string;
  container: string;
  state: string;
  columns: TableColumn[];
}

/** Every analytical table. */
export async function listTables(): Promise<NamedTable[]> {
  const reply = await send({ method: "GET", ...operator("analytics") });
  const { tables } = JSON.parse(reply.text) as { tables: (TableReport & { database: string; container: string })[] };
  return tables.map(({ database, container, state, figures }) => ({
    database,
    container,
    state,
    columns: figures.columns,
  }));
}
