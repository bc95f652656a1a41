// The properties that the server sets, taken out of an item's text.

import { pretty } from "../../client/json";

const SYSTEM_MEMBERS = /\n {2}"_(?:rid|self|etag|attachments|ts|lsn)": (?:"[^"\\]*(?:\\.[^"\\]*)*"|\d+),?/g;

/** A new item gets system properties of its own. */
export function withoutSystem(text: string): string {
  return pretty(text)
    .replace(SYSTEM_MEMBERS, "")
    .replace(/,(\n\})$/, "$1");
}
