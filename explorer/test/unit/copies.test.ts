import { expect, test } from "vitest";
import fc from "fast-check";
import type { IndexReport } from "../../src/client/indexes";
import type { Projection } from "../../src/client/projections";
import {
  arrowWords,
  consequence,
  copiesOf,
  indexState,
  placesIn,
  projectionTone,
  summary,
  unlistedWords,
} from "../../src/pages/copies/copy-words";
import { layout, type Graph, type GraphEdge } from "../../src/pages/copies/graph-layout";

const edges = (...texts: string[]): GraphEdge[] =>
  texts.map((text) => {
    const [from = "", to = ""] = text.split(">");
    return { from, to };
  });
const columns = ({ boxes }: Graph) => Object.fromEntries(boxes.map(({ name, column }) => [name, column]));

test("containers stand in columns by their distance from the sources", () => {
  expect(columns(layout(edges("a>b", "b>c", "a>d")))).toEqual({ a: 0, b: 1, c: 2, d: 1 });
  expect(columns(layout(edges("a>c", "a>b", "b>c")))).toEqual({ a: 0, b: 1, c: 2 });
  expect(columns(layout(edges("a>b", "x>y")))).toEqual({ a: 0, b: 1, x: 0, y: 1 });
  expect(layout([])).toEqual({ width: 8, height: 8, boxes: [], arrows: [] });
});

test("arrows that close a cycle run below the boxes, and distances ignore them", () => {
  const graph = layout(edges("a>b", "b>c", "c>a", "b>b"));
  expect(columns(graph)).toEqual({ a: 0, b: 1, c: 2 });
  const bottom = Math.max(...graph.boxes.map(({ y, height }) => y + height));
  const isBelow = graph.arrows.filter(({ label }) => label.y > bottom).map(({ edge }) => edge);
  expect(isBelow.sort()).toEqual([2, 3]);
  expect(columns(layout(edges("s>a", "a>b", "b>a")))).toEqual({ s: 0, a: 1, b: 2 });
});

test("copies between the same two containers have arrows of their own", () => {
  const { arrows } = layout(edges("a>b", "a>b", "a>b"));
  expect(new Set(arrows.map(({ label }) => label.y)).size).toBe(3);
});

test("a long chain is laid out without recursion", () => {
  const chain = Array.from({ length: 5_000 }, (_, at) => ({ from: `c${at}`, to: `c${at + 1}` }));
  expect(columns(layout(chain))["c5000"]).toBe(5_000);
});

test("for any copies: boxes do not overlap, arrows lead to the right or below, and all is inside of the drawing", () => {
  const name = fc.constantFrom(..."abcdefghij");
  fc.assert(
    fc.property(fc.array(fc.record({ from: name, to: name }), { maxLength: 25 }), (copies) => {
      const graph = layout(copies);
      const box = (name: string) => graph.boxes.find((one) => one.name === name)!;
      const names = new Set(copies.flatMap(({ from, to }) => [from, to]));
      expect(new Set(graph.boxes.map((one) => one.name))).toEqual(names);
      expect(graph.arrows.map(({ edge }) => edge).sort((a, b) => a - b)).toEqual(copies.map((_, at) => at));
      for (const one of graph.boxes) {
        expect(one.x >= 0 && one.y >= 0 && one.x + one.width <= graph.width && one.y + one.height <= graph.height).toBe(
          true,
        );
        for (const other of graph.boxes)
          if (one !== other && one.column === other.column)
            expect(one.y + one.height <= other.y || other.y + other.height <= one.y).toBe(true);
      }
      for (const { edge, path, label } of graph.arrows) {
        const { from, to } = copies[edge]!;
        expect(path).not.toMatch(/NaN|undefined|Infinity/);
        expect(label.x > 0 && label.x < graph.width && label.y > 0 && label.y < graph.height).toBe(true);
        if (label.anchor === "end") expect(box(from).column).toBeLessThan(box(to).column);
      }
      // The same copies give the same drawing.
      expect(layout(copies)).toEqual(graph);
    }),
  );
});

const index = (more: Partial<IndexReport> = {}): IndexReport => ({
  kind: "index",
  name: "shop/byEmail",
  database: "shop",
  container: "byEmail",
  source: "customer",
  definition: "SELECT c.email FROM c",
  status: "Active",
  reason: null,
  percent: null,
  lag: { changes: 0, seconds: 0 },
  rows: 31,
  counts: { refused: 0 },
  refused: [],
  lastError: null,
  ...more,
});
const projection = (more: Partial<Projection> = {}): Projection => ({
  id: "names",
  state: "running",
  reason: null,
  lag: { changes: 0, seconds: 0 },
  counts: { changes: 1, applied: 1, unchanged: 0, deadLetters: 0 },
  lastError: null,
  rule: { source: { database: "shop", container: "byEmail" }, target: { database: "crm", container: "people" } },
  ...more,
});

test("a status that is not known is shown as it is", () => {
  expect(indexState(index())).toEqual({ title: "Active", words: "", tone: "good" });
  expect(indexState(index({ status: "InitialBuildAfterCreate", percent: 42 })).title).toBe("Building, 42 %");
  expect(indexState(index({ status: "Failed", reason: "no room" })).words).toBe("no room");
  for (const status of ["Reconciling", "constructor", "__proto__"])
    expect(indexState(index({ status }))).toEqual({ title: status, words: "", tone: "warn" });
  expect([projectionTone("running"), projectionTone("failed"), projectionTone("later")]).toEqual([
    "good",
    "bad",
    "warn",
  ]);
});

test("indexes and projections are copies from one container to another, also in a chain", () => {
  const [one, two] = copiesOf([index()], [projection()]);
  expect([one?.from, one?.to, two?.from, two?.to]).toEqual([
    "shop/customer",
    "shop/byEmail",
    "shop/byEmail",
    "crm/people",
  ]);
});

test("an arrow has kind, lag and losses, and red is loss", () => {
  const arrow = (indexes: IndexReport[], projections: Projection[]) =>
    arrowWords(copiesOf(indexes, projections)[0] as never);
  expect(arrow([index()], [])).toEqual({ above: "index", below: "no lag", tone: "good" });
  expect(arrow([index({ status: "Paused", lag: { changes: 1, seconds: 3 } })], [])).toEqual({
    above: "index",
    below: "Paused · 1 change, 3 s",
    tone: "warn",
  });
  const letters = { changes: 9, applied: 7, unchanged: 0, deadLetters: 2 };
  expect(arrow([], [projection({ counts: letters })])).toEqual({
    above: "projection names",
    below: "no lag · 2 dead letters",
    tone: "bad",
  });
});

test("the page in a sentence", () => {
  const words = (indexes: IndexReport[], projections: Projection[] = []) => summary(copiesOf(indexes, projections));
  expect(words([index()])).toBe("1 copy follows its source.");
  expect(words([index()], [projection()])).toBe("2 copies follow their sources.");
  const paused = index({ status: "Paused", lag: { changes: 1200, seconds: 60 }, counts: { refused: 2 } });
  expect(words([paused], [projection()])).toBe(
    "1 of 2 copies follows its source; byEmail: Paused. byEmail is 1,200 changes, 60 s behind. 2 items could not be written.",
  );
  expect(words([index({ status: "Failed" })], [projection({ state: "waiting" })])).toBe(
    "2 copies do not follow their sources; byEmail: Failed, and 1 more.",
  );
  expect(words([index({ status: "Incomplete", counts: { refused: 1 } })])).toBe(
    "1 copy follows its source. 1 item could not be written.",
  );
});

test("each order names its consequence", () => {
  expect(consequence("pause", index(), [])).toMatch(/'customer' is kept for it: 24 hours/);
  expect(consequence("resume", index({ lag: { changes: 3, seconds: 1 } }), [])).toMatch(/3 changes wait\./);
  expect(consequence("rebuild", index(), [])).toMatch(/can be read meanwhile/);
  expect(consequence("delete", index(), [])).toMatch(/its 31 rows are deleted.*'customer' stays/);
  expect(consequence("delete", index(), ["byCity"])).toMatch(/delete byCity first/);
});

test("places of a definition are read from the words of its refusal", () => {
  expect(placesIn("ORDER BY: leave it out (characters 22 to 38); nothing was done")).toEqual([{ from: 22, to: 38 }]);
  expect(placesIn("no row of the index has the path '/other'")).toEqual([]);
});

test("refused items that are not listed are counted", () => {
  const refusal = { partitionKey: ["a"], id: "1", reason: "too many rows" };
  expect(unlistedWords(index({ counts: { refused: 1 }, refused: [refusal] }))).toBe("");
  expect(unlistedWords(index({ counts: { refused: 3 }, refused: [refusal] }))).toMatch(/^2 more items are counted/);
  expect(unlistedWords(index({ counts: { refused: 1 } }))).toMatch(/^1 item is counted and not listed/);
});
