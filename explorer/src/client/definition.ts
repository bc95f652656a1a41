// A container's definition as it is sent back: everything that was told stays as it was told.

import { members } from "./json";

const SYSTEM = new Set(["_rid", "_ts", "_self", "_etag", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts"]);

/** A definition's text with one member replaced, set or (without a text) left out, and without what the server sets. */
export function withMember(definition: string, name: string, text: string | null): string {
  const kept = members(definition).filter((member) => member.name !== name && !SYSTEM.has(member.name));
  const parts = kept.map((member) => `${JSON.stringify(member.name)}:${definition.slice(member.start, member.end)}`);
  if (text !== null) parts.push(`${JSON.stringify(name)}:${text}`);
  return `{${parts.join(",")}}`;
}
