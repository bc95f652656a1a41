// The query language for editors: colours by a scanner of tokens, completion, and the statement at the cursor.

import type { Completion, CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import { LanguageSupport, StreamLanguage, type StringStream } from "@codemirror/language";
import { FUNCTIONS, KEYWORDS } from "./words";

const keywords = new Set(KEYWORDS);
const functions = new Set(Object.keys(FUNCTIONS).map((name) => name.toUpperCase()));
/** Only in lower case: in any other, these are names. */
const ATOMS = new Set(["null", "true", "false", "undefined"]);

function token(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match("--")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string";
  if (stream.match(/^(?:0x[\da-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)/i)) return "number";
  if (stream.match(/^@\w+/)) return "variableName.special";
  const afterDot = stream.pos > 0 && stream.string[stream.pos - 1] === ".";
  const word = stream.match(/^[\p{L}_$][\p{L}\p{N}_$]*/u);
  if (!word) {
    stream.next();
    return null;
  }
  const name = stream.current();
  const upper = name.toUpperCase();
  if (afterDot) return "propertyName";
  if (ATOMS.has(name)) return "atom";
  if (functions.has(upper) && stream.match(/^\s*\(/, false)) return "variableName.function";
  return keywords.has(upper) || keywords.has(name) ? "keyword" : "variableName";
}

const language = StreamLanguage.define({
  name: "nosql",
  token,
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["(", "[", "{", '"', "'"] } },
});

export const nosql = (): LanguageSupport => new LanguageSupport(language);

const words: Completion[] = [
  ...KEYWORDS.map((label) => ({ label, type: "keyword" })),
  ...Object.entries(FUNCTIONS).map(([label, detail]) => ({ label, detail, type: "function", apply: `${label}(` })),
];

/** Completes words, and behind an alias the member names that `paths` knows. */
export function completeQuery(paths: () => Promise<string[]>): CompletionSource {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const path = context.matchBefore(/[\p{L}_$][\p{L}\p{N}_$]*(?:\.[\p{L}_$][\p{L}\p{N}_$]*)*\.[\p{L}\p{N}_$]*/u);
    if (path) {
      const parts = path.text.split(".");
      const typed = parts.pop() ?? "";
      const prefix = parts
        .slice(1)
        .map((name) => `/${name}`)
        .join("");
      const known = await paths();
      const names = new Set(
        known
          .filter((one) => one.startsWith(`${prefix}/`))
          .map((one) => one.slice(prefix.length + 1).split("/")[0] ?? ""),
      );
      const options = [...names].filter((name) => name !== "" && name !== "[]").map((name) => completionOf(name));
      return { from: path.to - typed.length, options };
    }
    const word = context.matchBefore(/[\p{L}_$][\p{L}\p{N}_$]*/u);
    if (!word && !context.explicit) return null;
    return { from: word?.from ?? context.pos, options: words, validFor: /^[\p{L}\p{N}_$]*$/u };
  };
}

/** A member that is no plain name goes in brackets. */
function completionOf(name: string): Completion {
  const isPlain = /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name);
  return isPlain
    ? { label: name, type: "property" }
    : {
        label: name,
        type: "property",
        apply: (view, _, from, to) => {
          const insert = `[${JSON.stringify(name)}]`;
          view.dispatch({ changes: { from: from - 1, to, insert } });
        },
      };
}
