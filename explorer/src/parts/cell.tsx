// A JSON token as a cell: the token as it is stored, in the colour of its type; long ones are cut, and whole on hover.

import type { JSX } from "solid-js";
import { decodeString } from "../client/json";

const SHOWN_MAX = 160;

export function Cell(props: { token: string | undefined }): JSX.Element {
  const { token } = props;
  if (token === undefined) return <span class="none">–</span>;
  const text = token[0] === '"' ? safeDecode(token) : token;
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return (
    <span class={kindOf(token)} title={text.length > 24 ? text.slice(0, 2_000) : undefined}>
      {shown}
    </span>
  );
}

/** Also strings whose escapes no browser knows are shown. */
function safeDecode(token: string): string {
  try {
    return decodeString(token);
  } catch {
    return token;
  }
}

export function kindOf(token: string): string {
  const first = token[0] ?? "";
  if (first === '"') return "str";
  if (first === "{" || first === "[") return "nest";
  return /[-\d]/.test(first) ? "num" : "lit";
}
