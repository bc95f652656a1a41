// SQL over analytical tables: answers, completion, plots, and the same question for items.

import { expect, test } from "vitest";
import type { NamedTable } from "../../src/client/analytics";
import { placeIn, readTableAnswer, tableParametersOf } from "../../src/client/table-query";
import { membersOf, namesIn, written } from "../../src/editor/tables";
import { plotOf, scaleOf } from "../../src/pages/sql/plot-model";
import { suggestionOf } from "../../src/pages/sql/suggestion";

const column = (name: string, type: string) => ({ name, type });
const TABLES: NamedTable[] = [
  {
    database: "shop",
    container: "customer",
    state: "following",
    columns: [
      column("id", "string"),
      column("type", "string"),
      column("n", "long"),
      column("First Name", "string"),
      column("details", "list<struct<sku string, price double>>"),
      column("address", "struct<city string, geo struct<lat double, lon double>>"),
    ],
  },
  { database: "shop", container: "product", state: "following", columns: [column("sku", "string")] },
];

test("an answer keeps every digit of its rows, and says what it cost", () => {
  const text =
    '{"columns":[{"name":"n","type":"Int64"}],"rows":[[12345678901234567890,"a\\"b"],[null,{"x":[1]}]],' +
    '"snapshot":{"shop/customer":{"version":812}},"statistics":{"elapsedMs":41,"bytesRead":2048}}';
  const answer = readTableAnswer(text, 9);
  expect(answer.rows).toEqual([
    ["12345678901234567890", '"a\\"b"'],
    ["null", '{"x":[1]}'],
  ]);
  expect(answer.versions).toEqual([{ table: "shop/customer", version: 812 }]);
  expect([answer.elapsedMs, answer.bytesRead]).toEqual([41, 2048]);
  expect(readTableAnswer('{"rows":[]}', 9)).toMatchObject({ rows: [], elapsedMs: 9, bytesRead: null });
});

test("a message's place is an offset of the text, also behind characters of two units", () => {
  expect(placeIn("SELECT x\nFROM t", "line 2, column 6: there is no table")).toBe(14);
  expect(placeIn("SELECT '💡', x", "line 1, column 13: no column")).toBe(13);
  expect(placeIn("SELECT x", "line 4, column 1: no column")).toBe(null);
  expect(placeIn("SELECT x", "the query needs too much")).toBe(null);
  expect(tableParametersOf("SELECT $a, '$b', \"$c\" -- $d\n FROM t WHERE x = @e /* $f */ AND y = $a")).toEqual([
    "a",
    "e",
  ]);
});

test("members of types are found below lists and structs", () => {
  expect(membersOf("list<struct<sku string, price double>>").map(({ name }) => name)).toEqual(["sku", "price"]);
  expect(membersOf("struct<city string, geo struct<lat double, lon double>>")).toEqual([
    { name: "city", type: "string" },
    { name: "geo", type: "struct<lat double, lon double>" },
  ]);
  expect(membersOf("string")).toEqual([]);
});

test("names that a statement gives are those of its tables and lists", () => {
  const named = (text: string) => [...namesIn(text, TABLES, "shop").keys()];
  expect(named("SELECT  FROM customer")).toEqual(["customer"]);
  expect(named("SELECT  FROM shop.customer AS c JOIN product p ON p.sku = c.id")).toEqual(["c", "p"]);
  expect(named('SELECT  FROM "shop"."customer" WHERE')).toEqual(["customer"]);
  const all = namesIn("SELECT  FROM customer c, UNNEST(c.details) AS d", TABLES, "shop");
  expect(membersOf(all.get("d") ?? "").map(({ name }) => name)).toEqual(["sku", "price"]);
  expect(named("SELECT  FROM nothing n")).toEqual([]);
  expect([written("customerId"), written("First Name"), written("order"), written('a"b')]).toEqual([
    "customerId",
    '"First Name"',
    '"order"',
    '"a""b"',
  ]);
});

test("a result is drawn by its numbers: bars by texts, a line over what goes on", () => {
  const columns = [{ name: "type" }, { name: "n" }, { name: "note" }];
  const bars = plotOf(columns, [
    ['"a"', "2", '"x"'],
    ['"b"', "null", '"y"'],
  ]);
  expect(bars).toEqual({ labels: ["a", "b"], series: [{ name: "n", values: [2, null] }], isOrdered: false });
  const days = plotOf(columns, [
    ['"2024-01-01"', "2", "-1.5"],
    ['"2024-01-02"', "3", "4"],
  ]);
  expect([days?.isOrdered, days?.series.length]).toEqual([true, 2]);
  expect(scaleOf(days?.series ?? [])).toEqual({ least: -1.5, most: 4 });
  expect(scaleOf([{ name: "n", values: [0, null] }])).toEqual({ least: 0, most: 1 });
  expect(plotOf(columns, [['"a"', '"x"', '"y"']])).toBe(null);
  expect(plotOf(columns, [])).toBe(null);
});

test("the same question for items is suggested where their language has it", () => {
  const of = (text: string) => suggestionOf(text, TABLES, "shop")?.text ?? null;
  expect(of("SELECT type, count(*) AS n FROM customer GROUP BY type")).toBe(
    "SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type",
  );
  expect(of("SELECT t.id, t.address.city FROM shop.customer AS t WHERE t.n > 3 AND type = 'x' LIMIT 10;")).toBe(
    "SELECT c.id, c.address.city FROM c WHERE c.n > 3 AND c.type = 'x' OFFSET 0 LIMIT 10",
  );
  expect(of('SELECT "First Name", upper(t."First Name") AS u FROM customer t WHERE n <> $n')).toBe(
    'SELECT c["First Name"], UPPER(c["First Name"]) AS u FROM c WHERE c.n != @n',
  );
  expect(of("SELECT * FROM customer")).toBe("SELECT * FROM c");
  for (const other of [
    "SELECT c.id FROM customer c JOIN product p ON p.sku = c.id",
    "SELECT x.sku FROM customer c, UNNEST(c.details) AS x",
    "SELECT rank() OVER (ORDER BY n) FROM customer",
    "SELECT nothing FROM customer",
    "SELECT id FROM customer WHERE n IS NULL",
    "SELECT id FROM elsewhere",
    "SELECT type FROM customer GROUP BY 1",
    "SHOW TABLES",
    "SELECT id FROM customer WHERE type = 'it''s'",
  ])
    expect(of(other), other).toBe(null);
});
