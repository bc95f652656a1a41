// Two people changed one item: what each of them did, by path, and one text that has both.
//
// Texts are compared token by token. Objects are merged by member, everything else is one value: arrays too, since
// members of arrays have no names. System properties are always theirs, since the server sets them.

import { compact, members, skipSpace } from "../client/json";

export interface Change {
  path: string;
  /** The same as the names of members. */
  names: string[];
  base: string | undefined;
  mine: string | undefined;
  theirs: string | undefined;
  isConflict: boolean;
}

export interface Merged {
  text: string;
  changes: Change[];
}

const SYSTEM = new Set(["_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"]);

/** `mineWins` decides changes to the same place. */
export function merge(base: string, mine: string, theirs: string, mineWins: (path: string) => boolean): Merged {
  const changes: Change[] = [];
  const text = mergeValue(compact(base), compact(mine), compact(theirs), [], changes, mineWins);
  return { text: text ?? "null", changes };
}

/** What has to be done to `from` to get `to`: changes with `theirs` as the new value. */
export function difference(from: string, to: string): Change[] {
  return merge(from, from, to, () => false).changes;
}

type Text = string | undefined;

function mergeValue(
  base: Text,
  mine: Text,
  theirs: Text,
  names: string[],
  changes: Change[],
  mineWins: (path: string) => boolean,
): Text {
  if (mine === theirs) return mine;
  if (isObject(mine) && isObject(theirs) && (isObject(base) || base === undefined)) {
    return mergeObject(base ?? "{}", mine, theirs, names, changes, mineWins);
  }
  const isConflict = mine !== base && theirs !== base;
  const path = `/${names.join("/")}`;
  changes.push({ path, names, base, mine, theirs, isConflict });
  if (!isConflict) return mine === base ? theirs : mine;
  return mineWins(path) ? mine : theirs;
}

function mergeObject(
  base: string,
  mine: string,
  theirs: string,
  names: string[],
  changes: Change[],
  mineWins: (path: string) => boolean,
): string {
  const [inBase, inMine, inTheirs] = [membersOf(base), membersOf(mine), membersOf(theirs)];
  const all = new Set([...inMine.keys(), ...inTheirs.keys(), ...inBase.keys()]);
  const parts: string[] = [];
  for (const name of all) {
    const below = [...names, name];
    const isSystem = names.length === 0 && SYSTEM.has(name);
    const value = isSystem
      ? inTheirs.get(name)
      : mergeValue(inBase.get(name), inMine.get(name), inTheirs.get(name), below, changes, mineWins);
    if (value !== undefined) parts.push(`${JSON.stringify(name)}:${value}`);
  }
  return `{${parts.join(",")}}`;
}

function membersOf(text: string): Map<string, string> {
  return new Map(members(text).map(({ name, start, end }) => [name, text.slice(start, end)]));
}

const isObject = (text: Text): text is string => text !== undefined && text[skipSpace(text, 0)] === "{";
