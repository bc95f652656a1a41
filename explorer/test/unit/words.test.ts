import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readError } from "../../src/client/error-body";
import { noAnswer } from "../../src/client/failure";
import { hint } from "../../src/client/hint";
import { readAnswer } from "../../src/client/query";
import { parametersOf, statementAt, statements } from "../../src/editor/statements";
import { FUNCTIONS } from "../../src/editor/words";
import { csvCell, csvLine } from "../../src/kit/csv";
import { bytes, milliseconds, percent, plural, rate } from "../../src/kit/format";
import { short } from "../../src/kit/short";
import { rank } from "../../src/kit/rank";
import { sumRanges } from "../../src/pages/query/run";
import { withMember } from "../../src/client/definition";

test("numbers have units and no more digits than mean something", () => {
  expect([bytes(612), bytes(1.5 * 2 ** 30), short(812_345), short(1_290_000), short(97)]).toEqual([
    "612 B",
    "1.5 GiB",
    "812.3 k",
    "1.3 M",
    "97",
  ]);
  expect([
    percent(0.714),
    percent(0.004),
    percent(0),
    milliseconds(0.4),
    milliseconds(3100),
    rate(1240.4),
    rate(2.25),
  ]).toEqual(["71 %", "0.4 %", "0 %", "0.4 ms", "3.1 s", "1,240", "2.3"]);
  expect([plural(1, "item"), plural(1200, "item")]).toEqual(["1 item", "1,200 items"]);
});

test("CSV quotes by the rules and disarms formulas, but not numbers", () => {
  const disarm = { disarm: true };
  expect([
    csvCell('a"b', disarm),
    csvCell("=1+1", disarm),
    csvCell("-5", disarm),
    csvCell("@x", { disarm: false }),
  ]).toEqual(['"a""b"', "'=1+1", "-5", "@x"]);
  expect(csvLine(["a,b", "c"], disarm)).toBe('"a,b",c\r\n');
});

test("errors of queries keep their places", () => {
  const body = JSON.stringify({
    code: "BadRequest",
    message:
      'Message: {"errors":[{"severity":"Error","location":{"start":9,"end":12},"code":"SC1001","message":"Syntax error"}]}\r\nActivityId: x, Request URI: /',
  });
  const error = readError(400, body, new Headers({ "x-ms-activity-id": "x" }));
  expect(error.message).toBe("Syntax error");
  expect(error.places).toEqual([{ start: 9, end: 12 }]);
});

test("advice of the server follows its message", () => {
  const errors = [{ code: "SC2001", message: "Identifier 'type' could not be resolved.", hint: "write c.type" }];
  const body = JSON.stringify({
    code: "BadRequest",
    message: `Message: ${JSON.stringify({ errors })}\r\nActivityId: x`,
  });
  expect(readError(400, body, new Headers()).message).toBe("Identifier 'type' could not be resolved.\nwrite c.type");
});

test("errors that are no JSON are shown as they are, and each says what to do", () => {
  expect(readError(502, "<html>bad gateway", new Headers()).message).toContain("bad gateway");
  const error = readError(
    412,
    '{"code":"x","message":"Message: {\\"Errors\\":[\\"changed\\"]}\\r\\nActivityId: y"}',
    new Headers(),
  );
  expect(error.message).toBe("changed");
  expect(hint(error)).toMatch(/changed it/);
  expect(noAnswer().isAway).toBe(true);
});

test("statements end at semicolons outside of strings and comments", () => {
  const text = "SELECT ';' FROM c; -- a;b\nSELECT 2 FROM c;\n";
  expect(statements(text).map((one) => one.text.trim())).toEqual(["SELECT ';' FROM c", "-- a;b\nSELECT 2 FROM c"]);
  expect(statementAt(text, 3)?.from).toBe(0);
  expect(statementAt(text, 40)?.text).toContain("SELECT 2");
  expect(parametersOf("SELECT @a, '@b' FROM c -- @c\n WHERE c.x = @a AND c.y = @d")).toEqual(["@a", "@d"]);
  // The language has no comments between `/*` and `*/`.
  expect(statements("SELECT 1 /* ; */").map((one) => one.text.trim())).toEqual(["SELECT 1 /*", "*/"]);
  expect(parametersOf("SELECT 1 /* @a */")).toEqual(["@a"]);
});

test("completion offers exactly the server's functions", () => {
  const page = readFileSync(new URL("../../../docs/sql-functions.md", import.meta.url), "utf8");
  const known = [...page.split("## Refused")[0]!.matchAll(/^\| `([A-Z0-9_]+)` /gm)].map(([, name]) => name);
  expect(
    Object.keys(FUNCTIONS)
      .map((name) => name.toUpperCase())
      .sort(),
  ).toEqual(known.sort());
});

test("an answer's rows stay texts, its figures become numbers", () => {
  const page = readAnswer(
    '{"charge":2.5,"elapsedMs":3,"continuation":null,"plan":[{"id":1,"kind":"load","label":"x","inputs":[],"figures":null}],"ranges":[],"rows":[{"n":9007199254740993},1.0]}',
  );
  expect(page.rows).toEqual(['{"n":9007199254740993}', "1.0"]);
  expect(page.charge).toBe(2.5);
  expect(page.plan?.[0]?.kind).toBe("load");
});

test("figures of pages add up by range", () => {
  const range = { id: "0", charge: 1, elapsedMs: 2, rows: 3, items: 4, postings: 5, access: "scan" };
  expect(sumRanges([range], [range, { ...range, id: "1", rows: null }])).toMatchObject([
    { id: "0", charge: 2, rows: 6, items: 8 },
    { id: "1", charge: 1, rows: null },
  ]);
});

test("the palette finds by letters in their order", () => {
  expect(rank("shop / orders", "ord")).toBe(7);
  expect(rank("shop / orders", "shrd")).not.toBeNull();
  expect(rank("shop / orders", "zz")).toBeNull();
});

test("a definition's other members are sent as they are", () => {
  const definition = '{"id":"c","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},"defaultTtl":5,"_etag":"x"}';
  expect(withMember(definition, "defaultTtl", "-1")).toBe(
    '{"id":"c","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},"defaultTtl":-1}',
  );
  expect(withMember(definition, "defaultTtl", null)).toBe(
    '{"id":"c","partitionKey":{"paths":["/a"],"kind":"Hash","version":2}}',
  );
});
