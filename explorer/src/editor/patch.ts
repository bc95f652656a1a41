// Patches: the operations that make one text of an item into another, and operations as people type them.

import { difference } from "./merge";

export const PATCH_MAX = 10;

export interface PatchOperation {
  op: "add" | "set" | "replace" | "remove" | "incr";
  path: string;
  /** JSON; nothing where the operation takes none. */
  value: string | undefined;
}

/** The body of a patch; values stay the texts that they are. */
export function patchBody(operations: PatchOperation[]): string {
  const one = ({ op, path, value }: PatchOperation) =>
    `{"op":${JSON.stringify(op)},"path":${JSON.stringify(path)}${value === undefined ? "" : `,"value":${value}`}}`;
  return `{"operations":[${operations.map(one).join(",")}]}`;
}

export interface PatchPlan {
  operations: PatchOperation[];
  /** Why the difference cannot be sent as a patch. */
  obstacle: string | null;
}

/** A JSON pointer. */
export const pointerOf = (names: string[]): string =>
  names.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** What to do to the stored text to get the edited one. */
export function patchOf(stored: string, edited: string): PatchPlan {
  const operations: PatchOperation[] = [];
  let obstacle: string | null = null;
  for (const { names, base, theirs } of difference(stored, edited)) {
    const path = pointerOf(names);
    if (path === "/id") obstacle = "an id cannot be patched: save the whole item, or create another";
    if (names.length === 0) obstacle = "this is another item altogether: save it whole";
    if (theirs === undefined) operations.push({ op: "remove", path, value: undefined });
    else operations.push({ op: base === undefined ? "add" : "set", path, value: theirs });
  }
  if (operations.length > PATCH_MAX) {
    obstacle = `a patch has at most ${PATCH_MAX} operations, and these are ${operations.length}: save the whole item`;
  }
  if (operations.length === 0) obstacle = "nothing was changed";
  return { operations, obstacle };
}
