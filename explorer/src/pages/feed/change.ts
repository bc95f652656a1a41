// A change as a row: what was done to which item, and what differs by path.

import { decodeString, valueAt } from "../../client/json";
import { keyOf } from "../../client/key";
import { difference, type Change as Difference } from "../../editor/merge";
import { clock } from "../../kit/format";

export interface Change {
  lsn: string;
  time: string;
  operation: string;
  key: string;
  id: string;
  words: string;
  differences: Difference[];
  text: string;
}

const WORDS_MAX = 200;

export function changeOf(text: string, mode: "latest" | "all", keyPaths: string[]): Change {
  return mode === "all" ? ofAll(text, keyPaths) : ofLatest(text, keyPaths);
}

const member = (text: string, ...path: string[]): string => decodeString(valueAt(text, path) ?? '""');
const timeOf = (seconds: string): string => (seconds === "" ? "" : clock(new Date(Number(seconds) * 1000)));

function ofLatest(text: string, keyPaths: string[]): Change {
  return {
    lsn: member(text, "_lsn"),
    time: timeOf(member(text, "_ts")),
    operation: "version",
    key: keyOf(text, keyPaths),
    id: member(text, "id"),
    words: text.slice(0, WORDS_MAX),
    differences: [],
    text,
  };
}

function ofAll(text: string, keyPaths: string[]): Change {
  const current = valueAt(text, ["current"]) ?? "{}";
  const previous = valueAt(text, ["previous"]);
  const operation = member(text, "metadata", "operationType") || "change";
  const item = operation === "delete" ? (previous ?? "{}") : current;
  const differences = operation === "replace" && previous ? difference(previous, current) : [];
  const told = differences
    .map(({ path, base, theirs }) => `${path.slice(1)} ${base ?? "missing"} → ${theirs ?? "missing"}`)
    .join(" · ");
  return {
    lsn: member(text, "metadata", "lsn"),
    time: timeOf(member(text, "metadata", "crts")),
    operation,
    key:
      previous || operation !== "delete" ? keyOf(item, keyPaths) : (valueAt(text, ["metadata", "partitionKey"]) ?? ""),
    id: member(item, "id") || member(text, "metadata", "id"),
    words: (told || item).slice(0, WORDS_MAX),
    differences,
    text,
  };
}
