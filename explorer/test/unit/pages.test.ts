import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import fc from "fast-check";
import { readSaved } from "../../src/client/saved";
import { compact } from "../../src/client/json";
import type { Partition, Report } from "../../src/client/reports";
import { patchBody, patchOf, pointerOf } from "../../src/editor/patch";
import { csvLine } from "../../src/kit/csv";
import { CsvReader } from "../../src/kit/csv-read";
import { columnsOf } from "../../src/pages/items/columns";
import { csvTexts, itemOf } from "../../src/pages/items/file-texts";
import { expressionOf } from "../../src/pages/items/sort";
import { boundAt, fractionOf } from "../../src/pages/items/seek-place";
import { cameTo, isInForce, wasGivenUp } from "../../src/pages/partitions/came-to";
import type { Remedy } from "../../src/pages/partitions/remedies";
import { dearestQueries } from "../../src/pages/partitions/hot-lists";
import { momentOf, type HeatModel } from "../../src/pages/partitions/heat-model";
import { dividedBy, measured, stepOf, worse } from "../../src/pages/partitions/tour-steps";
import { changeWords } from "../../src/pages/query/change-words";
import { figureWords, together } from "../../src/pages/query/plan-words";
import { refusedWords } from "../../src/pages/partitions/remedies";
import type { TableReport } from "../../src/client/analytics";
import { groupedColumn, snippets } from "../../src/pages/analytics/snippets";
import { bodyOf, textsOf } from "../../src/pages/analytics/settings-text";
import { restReasons, shareWords, stateWords } from "../../src/pages/analytics/table-words";
import { verdictOf } from "../../src/pages/settings/verdict";
import { isWrong, type Finding } from "../../src/client/account";
import { newest, periodWords } from "../../src/client/pulse";
import { secondsWords, whenWords } from "../../src/parts/finding-words";

const rowsOf = (pieces: string[]) => {
  const reader = new CsvReader();
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()].map(({ cells }) =>
    cells.map(({ text }) => text),
  );
};

test("what is written as CSV is read the same, wherever the pieces of the file end", () => {
  const cell = fc.oneof(fc.string(), fc.constantFrom('"', "\r\n", ",", 'a"b,c\nd', "\r"));
  fc.assert(
    fc.property(
      fc.array(fc.array(cell, { minLength: 2, maxLength: 4 }), { minLength: 1 }),
      fc.integer({ min: 1, max: 7 }),
      (rows, size) => {
        const text = rows.map((row) => csvLine(row, { disarm: false })).join("");
        const pieces = text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
        expect(rowsOf(pieces)).toEqual(rows);
      },
    ),
  );
});

test("cells of CSV become members, and no number is touched", () => {
  const row = (cells: [string, boolean][]) => ({ cells: cells.map(([text, isQuoted]) => ({ text, isQuoted })) });
  const names = ["id", "n", "s", "list", "empty"];
  const cells = row([
    ["7", false],
    ["9007199254740993", false],
    ["0123", false],
    ['[1,{"a":2}]', true],
    ["", false],
  ]);
  expect(itemOf(names, cells, { typed: true })).toBe('{"id":"7","n":9007199254740993,"s":"0123","list":[1,{"a":2}]}');
  expect(itemOf(names, cells, { typed: false })).toBe(
    '{"id":"7","n":"9007199254740993","s":"0123","list":"[1,{\\"a\\":2}]"}',
  );
});

test("a CSV file whose header is ambiguous is refused in words", async () => {
  const read = async (text: string) => {
    for await (const one of csvTexts(new Blob([text]), { typed: true })) void one;
  };
  await expect(read("a,a\n1,2\n")).rejects.toThrow('two columns have the name "a"');
  await expect(read("a,\n1,2\n")).rejects.toThrow("a column has no name");
  await expect(read('a\n"1\n')).rejects.toThrow("does not end");
});

test("a difference is a patch with pointers, values as they were typed", () => {
  const plan = patchOf('{"id":"1","a":{"b/c":1,"d~":2},"gone":1}', '{"id":"1","a":{"b/c":1.0,"d~":2},"new":1e400}');
  expect(plan).toEqual({
    obstacle: null,
    operations: [
      { op: "set", path: "/a/b~1c", value: "1.0" },
      { op: "remove", path: "/gone", value: undefined },
      { op: "add", path: "/new", value: "1e400" },
    ],
  });
  expect(patchBody(plan.operations)).toContain('{"op":"add","path":"/new","value":1e400}');
  expect(patchOf('{"id":"1"}', '{"id":"2"}').obstacle).toMatch(/an id cannot be patched/);
  expect(patchOf('{"id":"1"}', '{ "id": "1" }').obstacle).toBe("nothing was changed");
  const many = `{${Array.from({ length: 11 }, (_, at) => `"m${at}":${at}`).join(",")}}`;
  expect(patchOf("{}", many).obstacle).toMatch(/at most 10/);
  expect(pointerOf(["a", "~/"])).toBe("/a/~0~1");
});

test("a patch of the difference makes the edited text", () => {
  const value = fc.dictionary(fc.string({ maxLength: 4 }), fc.oneof(fc.integer(), fc.string(), fc.constant(null)), {
    maxKeys: 5,
  });
  const apply = (text: string, body: string): unknown => {
    const item = JSON.parse(text) as Record<string, unknown>;
    const { operations } = JSON.parse(body) as { operations: { op: string; path: string; value: unknown }[] };
    for (const { op, path, value: next } of operations) {
      const name = path.slice(1).replaceAll("~1", "/").replaceAll("~0", "~");
      if (op === "remove") delete item[name];
      else Object.defineProperty(item, name, { value: next, writable: true, enumerable: true, configurable: true });
    }
    return item;
  };
  fc.assert(
    fc.property(value, value, (from, to) => {
      const [stored, edited] = [JSON.stringify(from), JSON.stringify(to)];
      const { operations } = patchOf(stored, edited);
      if (operations.some(({ path }) => path === "")) return;
      expect(apply(stored, patchBody(operations))).toEqual(JSON.parse(compact(edited)));
    }),
  );
});

test("places in the hash space and bounds are the same thing", () => {
  expect(boundAt(0)).toBeNull();
  expect(boundAt(0.5)).toBe("20000000");
  expect(fractionOf("20")).toBe(0.5);
  expect([fractionOf(""), fractionOf("FF")]).toEqual([0, 1]);
  fc.assert(
    fc.property(fc.double({ min: 0.001, max: 0.999, noNaN: true }), (share) => {
      expect(fractionOf(boundAt(share) ?? "")).toBeCloseTo(share, 6);
    }),
  );
});

test("columns are sorted by expressions that any name survives", () => {
  expect(expressionOf(["total"])).toBe("c.total");
  expect(expressionOf(["a b", "c"])).toBe('c["a b"].c');
});

const partition = (more: Partial<Partition>): Partition =>
  ({ id: "0", hottestKeys: [], hottestQueries: [], largestKeys: [], ...more }) as Partition;

test("a query that several partitions answered is told once, with its share of all queries", () => {
  const told = (template: string, ru: number, share: number) => ({ template, ru, share, errorRu: 0 });
  const queries = dearestQueries([
    partition({ id: "0", hottestQueries: [told("A", 30, 0.75), told("B", 10, 0.25)] }),
    partition({ id: "1", hottestQueries: [told("A", 60, 1)] }),
  ]);
  expect(queries).toEqual([
    { template: "A", partitions: ["0", "1"], ru: 90, share: 0.9 },
    { template: "B", partitions: ["0"], ru: 10, share: 0.1 },
  ]);
});

test("a column of nothing but numbers stands to the right, a moment does not", () => {
  const rows = ['{"id":"1","n":1,"m":1,"_ts":7}', '{"id":"2","n":-2e400,"m":"1","_ts":8}', '{"id":"3","_ts":9}'];
  const right = columnsOf(rows, ["/key"]).filter(({ isNumber }) => isNumber);
  expect(right.map(({ name }) => name)).toEqual(["n"]);
});

test("a moment of the map tells each partition that there was", () => {
  const model = {
    columns: 2,
    rows: 2,
    cells: Float32Array.from([0.1, Number.NaN, 1, 0.25]),
    throttled: [{ column: 1, row: 0, rows: 1, share: 0.5 }],
    epochs: [
      { column: 0, ranges: [{ id: "0", firstRow: 0, rows: 2, budget: 400 }] },
      {
        column: 1,
        ranges: [
          { id: "1", firstRow: 0, rows: 1, budget: 200 },
          { id: "2", firstRow: 1, rows: 1, budget: 200 },
        ],
      },
    ],
  } as unknown as HeatModel;
  expect(momentOf(model, 0).map(({ id, most }) => [id, Math.fround(most)])).toEqual([["0", Math.fround(0.1)]]);
  expect(momentOf(model, 1)).toEqual([
    { id: "1", most: 1, budget: 200, refused: 0.5 },
    { id: "2", most: 0.25, budget: 200, refused: 0 },
  ]);
});

test("a partition whose bound lies within a row is not told its neighbour's refusals", () => {
  const ranges = [
    { id: "3", firstRow: 0, rows: 5, budget: 200 },
    { id: "4", firstRow: 4, rows: 4, budget: 200 },
  ];
  const throttled = [{ column: 0, row: 0, rows: 5, share: 0.5 }];
  const model = { columns: 1, rows: 8, cells: new Float32Array(8), throttled, epochs: [{ column: 0, ranges }] };
  const moment = momentOf(model as unknown as HeatModel, 0);
  expect(moment.map(({ refused }) => refused)).toEqual([0.5, 0]);
});

test("the tour goes on when what it waits for has happened", () => {
  const load = { throttled: 50, operationsPerSecond: 15, windowSeconds: 10, ruPerSecond: 600 };
  const report = (budget: number, throttled: number) =>
    ({
      throughput: { ruPerSecond: 1200 },
      partitions: [partition({ load: { ...load, throttled }, budget: { ruPerSecond: budget } } as Partial<Partition>)],
    }) as unknown as Report;
  const hot = measured(report(600, 50));
  const warm = measured(report(600, 5));
  expect(hot).toEqual({ refused: 0.25, busiest: 1 });
  expect([worse(null, warm), worse(warm, hot), worse(hot, warm)]).toEqual([warm, hot, hot]);
  const seen = { isFound: false, isRead: false, isTreated: false, before: hot, after: null };
  expect(stepOf(seen)).toBe(0);
  expect(stepOf({ ...seen, isFound: true, before: warm })).toBe(0);
  expect(stepOf({ ...seen, isFound: true })).toBe(1);
  expect(stepOf({ ...seen, isFound: true, isRead: true })).toBe(2);
  expect(stepOf({ ...seen, isTreated: true })).toBe(3);
  expect(stepOf({ ...seen, isTreated: true, after: hot })).toBe(3);
  expect(stepOf({ ...seen, isTreated: true, after: measured(report(900, 0)) })).toBe(4);
  expect(dividedBy(report(600, 0))).not.toBe(dividedBy(report(900, 0)));
});

test("two runs are compared in words", () => {
  expect([changeWords(10, 5), changeWords(10, 11), changeWords(10, 10), changeWords(0, 5)]).toEqual([
    "−50 %",
    "+10 %",
    "the same",
    "",
  ]);
});

test("a file of saved queries is read with suspicion", () => {
  expect(readSaved('[{"name":"a","text":"SELECT 1","more":2}]')).toEqual([{ name: "a", text: "SELECT 1" }]);
  for (const wrong of ["{", "{}", '[{"name":""}]', '[{"name":" ","text":"x"}]', "[1]"])
    expect(() => readSaved(wrong)).toThrow(/this file/);
});

test("a remedy is told to be in force when it is, and what it came to", () => {
  const part = (id: string, minInclusive: string, ruPerSecond: number): Partition =>
    partition({ id, minInclusive, load: { ruPerSecond }, budget: { ruPerSecond: 400 } } as Partial<Partition>);
  const report = (partitions: Partition[], more: Partial<Report> = {}) =>
    ({ partitions, relocation: null, lastRelocation: null, ...more }) as Report;
  const before = report([part("0", "", 400), part("1", "20", 10)]);
  const split: Remedy = { kind: "split", partition: "0", at: "best", predicted: "60 % / 40 %" };
  const after = report([part("1", "20", 10), part("3", "10", 100), part("2", "", 300)]);
  expect(isInForce(split, before, before)).toBe(false);
  expect(isInForce(split, before, report(after.partitions, { relocation: {} as Report["relocation"] }))).toBe(false);
  expect(isInForce(split, before, after)).toBe(true);
  expect(cameTo(split, before, after)).toBe("75 % / 25 % in partitions 2 and 3");
  expect(wasGivenUp(before, after)).toBe(false);
  expect(wasGivenUp(before, report(before.partitions, { lastRelocation: { outcome: "given up", reason: "x" } }))).toBe(
    true,
  );
  expect(isInForce({ kind: "shares", shares: {} }, before, before)).toBe(true);
  expect(cameTo({ kind: "shares", shares: {} }, before, before)).toBe("the busiest partition uses 100 % of its budget");
});

test("a figure that was not counted is a dash, and a sum over partitions says so", () => {
  const none = { rowsIn: null, rowsOut: null, postings: null, items: null, bytes: null, timeUs: null };
  expect(figureWords(none)).toBe("– rows");
  expect(figureWords({ ...none, rowsIn: 1475 })).toBe("1,475 → – rows");
  expect(figureWords({ ...none, rowsIn: 5, rowsOut: 0 })).toBe("5 → 0 rows");
  expect([together(1), together(5)]).toEqual(["", " in 5 partitions together"]);
  expect([newest([1, null]), newest([null]), newest(undefined)]).toEqual([1, null, null]);
  expect([1, 60, 600].map((periodSeconds) => periodWords({ periodSeconds }))).toEqual([
    "second",
    "minute",
    "10 minutes",
  ]);
});

test("a prediction is no more exact than its window", () => {
  expect(refusedWords({ throttledShare: 0, throttledShareMax: 1 / 30 })).toBe(
    "about 0 to 4 % of what is asked for refused",
  );
  expect(refusedWords({ throttledShare: 0.14, throttledShareMax: 0.14 })).toBe("14 % of what is asked for refused");
  expect(refusedWords({ throttledShare: 0.14 })).toBe("14 % of what is asked for refused");
  expect(refusedWords({})).toBeUndefined();
});

test("a finding says since when it holds, and how long ago it was cured", () => {
  const at = (seconds: number) => 1_700_000_000_000 + seconds * 1000;
  const finding = (more: Partial<Finding>) => ({ kind: "singleHotKey", ...more }) as Finding;
  expect(whenWords({ since: at(0), until: null }, at(40))).toMatch(/^since \d\d:\d\d:\d\d$/);
  expect(whenWords({ since: at(0), until: at(16) }, at(40))).toBe("cured 24 s ago");
  expect(whenWords({}, at(40))).toBe("");
  expect([isWrong(finding({})), isWrong(finding({ until: null })), isWrong(finding({ until: at(1) }))]).toEqual([
    true,
    true,
    false,
  ]);
  expect(isWrong(finding({ kind: "nothingWrong" }))).toBe(false);
  expect([10, 60, 119, 120, 600, 21_600, 4 * 86_400].map((seconds) => secondsWords(seconds * 1000))).toEqual([
    "10 s",
    "60 s",
    "119 s",
    "2 min",
    "10 min",
    "6 h",
    "4 d",
  ]);
});

test("no policy is called cheaper whose prediction is above what was measured", () => {
  const prospect = (charge: number | null, way: "scan" | "index" = "index") => ({ way, charge, refusal: null });
  const fate = (now: number | null, then: number | null, measured: number | null) => ({
    query: "",
    now: prospect(now),
    then: prospect(then),
    measured,
  });
  expect(verdictOf(fate(151.98, 20.35, 18.23))).toBe("the same");
  expect(verdictOf(fate(18.2, 20.35, 18.23))).toBe("dearer");
  expect(verdictOf(fate(20, 5, 21))).toBe("cheaper");
  expect(verdictOf(fate(20, 5, null))).toBe("cheaper");
  expect(verdictOf(fate(null, null, 3))).toBe("–");
  expect(verdictOf({ ...fate(null, null, 3), then: prospect(null, "scan") })).toBe("no index");
  expect(verdictOf({ ...fate(1, 1, 1), then: { way: null, charge: null, refusal: "no" } })).toBe("refused");
});

test("the snippets of an analytical table are those of the documentation, with its folder", () => {
  const page = readFileSync(new URL("../../../docs/analytics.md", import.meta.url), "utf8");
  const printed = [...page.matchAll(/<!-- snippet: (\S+) -->\n```python\n([^]*?)\n```/g)].map(([, name, text]) => ({
    name,
    text: text?.replaceAll("ROOT/shop/customer", "/data/analytics/shop/customer"),
  }));
  const shown = snippets("/data/analytics/shop/customer", "type");
  // The documentation also has programs that query over HTTP.
  const readers = printed.filter(({ name }) => !name?.startsWith("sql-"));
  expect(shown.map(({ reader, text }) => ({ name: reader.toLowerCase(), text }))).toEqual(readers);
  expect(snippets("/it's", "type")[0]?.text).toContain("delta_scan('/it''s')");
});

test("settings of an analytical store survive their form, and paths stand on lines of their own", () => {
  const path = fc.stringMatching(/^\/[a-z]{1,5}(\/[a-z]{1,5})?$/);
  const settings = fc.record({
    schema: fc.constantFrom("wellDefined" as const, "fullFidelity" as const),
    clusterBy: fc.array(path, { maxLength: 4 }),
    exclude: fc.array(path, { maxLength: 5 }),
    lagSeconds: fc.integer({ min: 1, max: 3600 }),
  });
  fc.assert(
    fc.property(settings, (stored) => {
      expect(bodyOf(textsOf(stored))).toEqual(stored);
    }),
  );
  expect(bodyOf(textsOf({}))).toEqual({ schema: "wellDefined", clusterBy: [], exclude: [] });
  const typed = { schema: "wellDefined" as const, clusterBy: " /a \n\n/b/c\n", exclude: "", lagSeconds: " soon " };
  expect(bodyOf(typed)).toEqual({ schema: "wellDefined", clusterBy: ["/a", "/b/c"], exclude: [], lagSeconds: "soon" });
});

test("rows are counted by a column that the table has, and whose name needs no quotes", () => {
  const columns = (...named: [string, string][]) => named.map(([name, type]) => ({ name, type }));
  const own: [string, string][] = [
    ["_rid", "string"],
    ["id", "string"],
  ];
  expect(groupedColumn(columns(...own, ["city", "string"], ["type", "string"]))).toBe("type");
  expect(groupedColumn(columns(...own, ["a-b", "string"], ["at", "struct<x long>"], ["city", "string"]))).toBe("city");
  expect(groupedColumn(columns(...own, ["price", "double"], ["_rest", "string"]))).toBe("id");
});

test("an analytical table shows its state, its lag and its size in words", () => {
  const report = (state: string, more: Partial<TableReport> = {}) =>
    ({ state, reason: null, percent: null, lag: { changes: 0, seconds: 0 }, ...more }) as TableReport;
  const shown = (state: string, more: Partial<TableReport> = {}) => {
    const { title, words, tone } = stateWords(report(state, more));
    return `${tone} ${title}: ${words}`;
  };
  expect(shown("following")).toBe("good Following: the table has every change.");
  expect(shown("following", { lag: { changes: 1200, seconds: 1 } })).toBe(
    "good Following: 1,200 changes behind, for 1 second.",
  );
  expect(shown("building", { percent: 40 })).toContain("warn Building: the first copy is under way, 40 %.");
  expect(shown("waiting", { reason: "the disk is full" })).toContain("warn Waiting: the disk is full.");
  expect(shown("failed", { reason: "another writer" })).toBe("bad Failed: another writer. Rebuild the table.");
  for (const state of ["rebuilding", "paused", "stopped", "closed"])
    expect(shown(state)).toMatch(/^warn [A-Z][a-z]+: ./);
  expect(restReasons({ number: 2, type: 9, other: 1 }).map(({ words, values }) => [words, values])).toEqual([
    ["another type than the column's", 9],
    ["a number that the column's type lacks", 2],
    ["other", 1],
  ]);
  expect([shareWords(30, 100), shareWords(30, 0)]).toEqual([", 30 % of the items as JSON", ""]);
});
