// Rules of the house, read from the sources: who imports whom, what may not be written, how long files are.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { join, relative } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url).pathname;
const files = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
const sources = files(join(root, "src")).filter((path) => /\.tsx?$/.test(path));
const name = (path: string) => relative(join(root, "src"), path);
const text = (path: string) => readFileSync(path, "utf8");

// Lower layers first: a file imports from its own layer or below.
const LAYERS: Record<string, string[]> = {
  client: ["client"],
  kit: ["kit"],
  editor: ["editor", "client"],
  state: ["state", "client", "kit"],
  parts: ["parts", "state", "editor", "kit", "client"],
  pages: ["pages", "parts", "state", "editor", "kit", "client"],
};

test("layers import downwards only, and pages never each other", () => {
  const wrong: string[] = [];
  for (const path of sources) {
    const [layer = "", page = ""] = name(path).split("/");
    const allowed = LAYERS[layer];
    if (!allowed) continue;
    for (const [, target = ""] of text(path).matchAll(/from "(\.[^"]+)"/g)) {
      const [to = "", toPage = ""] = relative(join(root, "src"), join(path, "..", target)).split("/");
      if (!allowed.includes(to) || (layer === "pages" && to === "pages" && toPage !== page))
        wrong.push(`${name(path)} → ${target}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("the client and the editor know nothing of screens' library", () => {
  const wrong = sources.filter((path) => /^(client|editor)\//.test(name(path)) && /from "solid-js/.test(text(path)));
  expect(wrong.map(name)).toEqual([]);
});

test("nothing is written that the content policy or safety forbids", () => {
  const FORBIDDEN: [RegExp, string][] = [
    [/innerHTML|outerHTML|insertAdjacentHTML|document\.write/, "markup from text"],
    [/\beval\(|new Function\(/, "code from text"],
    [/\sstyle="/, "a style attribute"],
    [/: any\b|<any>|as any\b/, "any"],
    [/@ts-(ignore|expect-error|nocheck)/, "a switched-off check"],
    [/https?:\/\/(?!x\/)/, "an address of another origin"],
  ];
  const wrong = sources.flatMap((path) =>
    FORBIDDEN.filter(([pattern]) => pattern.test(text(path))).map(([, words]) => `${name(path)}: ${words}`),
  );
  expect(wrong).toEqual([]);
});

test("items never pass through JSON.parse on their way", () => {
  const allowed = new Set([
    "client/account.ts",
    "client/analytics.ts",
    "client/endpoints.ts",
    "client/error-body.ts",
    "client/json.ts",
    "client/key.ts",
    "client/offers.ts",
    "client/projections.ts",
    "client/pulse.ts",
    "client/query.ts",
    "client/reports.ts",
    "client/saved.ts",
    "client/schema.ts",
    "client/scripts.ts",
    "client/table-query.ts",
    "client/users.ts",
    "client/log.ts",
    "pages/query/query.tsx",
    "shell/shell.tsx",
  ]);
  const wrong = sources
    .map((path) => [name(path), text(path)] as const)
    .filter(([path, code]) => /JSON\.parse\(/.test(code) && !allowed.has(path));
  expect(wrong.map(([path]) => path)).toEqual([]);
});

test("files begin with what they are for, and are short", () => {
  for (const path of sources) {
    expect(text(path).startsWith("// "), name(path)).toBe(true);
    expect(text(path).split("\n").length, name(path)).toBeLessThan(420);
  }
});

/** A chunk with all that it imports before it runs. */
function needed(names: string[], dist: string): string[] {
  const found = new Set(names);
  for (const chunk of found) {
    for (const [, next = ""] of text(join(dist, chunk)).matchAll(/(?:from|import)\s*["`]\.\/([\w.-]+\.js)["`]/g))
      found.add(next);
  }
  return [...found];
}

test("the bundle keeps its budget", () => {
  const budget = JSON.parse(text(join(root, "budget.json"))) as {
    allGzipBytes: number;
    firstScreenGzipBytes: number;
    shellScriptGzipBytes: number;
    queryGzipBytes: number;
    homeGzipBytes: number;
  };
  const dist = join(root, "dist", "assets");
  const size = (names: string[]) =>
    names.reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file)), { level: 9 }).length, 0);
  const all = readdirSync(dist);
  expect(size(all)).toBeLessThan(budget.allGzipBytes);
  const main = needed(["main.js"], dist);
  // Editors are fetched when the first one is shown, and the page of queries shows one.
  const query = needed(["query.js", "setup.js", "nosql.js"], dist);
  const screens = { first: main, home: needed(["home.js"], dist), query };
  const sizes = Object.fromEntries(
    Object.entries(screens).map(([screen, names]) => [screen, size([...new Set([...main, ...names]), "style.css"])]),
  );
  console.log(
    `gzip bytes: all ${size(all)}, script of the shell ${size(main)}, first screen ${sizes["first"]}, home ${sizes["home"]}, query ${sizes["query"]}`,
  );
  expect(size(main)).toBeLessThan(budget.shellScriptGzipBytes);
  expect(sizes["first"]).toBeLessThan(budget.firstScreenGzipBytes);
  expect(sizes["home"]).toBeLessThan(budget.homeGzipBytes);
  expect(sizes["query"]).toBeLessThan(budget.queryGzipBytes);
});

test("what is served names no other host and finds its files by the build's path", () => {
  const html = text(join(root, "dist", "index.html"));
  expect(html).toContain("/_explorer/assets/__BUILD__/main.js");
  expect(html).not.toMatch(/<style|<script(?![^>]*src=)|style=/);
  expect(text(join(root, "package-lock.json"))).not.toContain('"resolved"');
});
