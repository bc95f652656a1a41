import { expect, test } from "vitest";
import { floats } from "../../src/client/floats";
import type { Heat } from "../../src/client/reports";
import { append, cellAt, columnAt, hottest, modelOf, ownerAt, sliceTimes } from "../../src/pages/partitions/heat-model";
import { withShare } from "../../src/pages/partitions/remedies";

const encode = (cells: number[]) => Buffer.from(Float32Array.from(cells).buffer).toString("base64");
const packed = (cells: number[]) => Float32Array.from(cells);

function heat(times: number[], cells: number[], more: Partial<Heat> = {}): Heat {
  const numberOf = (time: number) => Math.round((time - T) / 1000);
  return {
    firstSequence: numberOf(times[0] ?? T),
    sequence: numberOf(times.at(-1) ?? T),
    periodSeconds: 1,
    times,
    rowBounds: ["", "20", "FF"],
    cells: packed(cells),
    unit: "shareOfBudget",
    throttled: [],
    epochs: [{ from: times[0] ?? 0, ranges: [{ id: "0", firstRow: 0, rows: 2, budgetRuPerSecond: 400 }] }],
    events: [],
    knownSince: null,
    ...more,
  };
}

const T = 1_700_000_000_000;

test("cells are columns of rows, little-endian floats", () => {
  const model = modelOf(heat([T, T + 1000], [0.1, 0.2, 0.3, 0.4]));
  expect([model.columns, model.rows]).toEqual([2, 2]);
  expect(cellAt(model, 1, 0)).toBeCloseTo(0.3);
  expect(floats(encode([1.5, -2]))).toEqual(Float32Array.from([1.5, -2]));
});

test("a split is a line that begins where it happened", () => {
  const model = modelOf(
    heat([T, T + 1000, T + 2000], [1, 1, 1, 1, 1, 1], {
      epochs: [
        { from: T - 9000, ranges: [{ id: "0", firstRow: 0, rows: 2, budgetRuPerSecond: 400 }] },
        {
          from: T + 1000,
          ranges: [
            { id: "1", firstRow: 0, rows: 1, budgetRuPerSecond: 200 },
            { id: "2", firstRow: 1, rows: 1, budgetRuPerSecond: 200 },
          ],
        },
      ],
      events: [{ time: T + 1000, kind: "split", sources: ["0"], targets: ["1", "2"], pauseMs: 3.14 }],
      throttled: [[T + 2000, 1, 1, 0.5]],
    }),
  );
  expect([ownerAt(model, 0, 1)?.id, ownerAt(model, 1, 1)?.id, ownerAt(model, 2, 0)?.id]).toEqual(["0", "2", "1"]);
  expect(model.events).toEqual([{ column: 1, words: "split 0 → 1, 2, writers held 3.1 ms" }]);
  expect(model.throttled).toEqual([{ column: 2, row: 1, rows: 1, share: 0.5 }]);
});

test("new columns take the place of the open one, and the oldest go", () => {
  const known = heat([T, T + 1000, T + 2000], [1, 1, 2, 2, 3, 3]);
  const grown = modelOf(append(known, heat([T + 2000, T + 3000], [4, 4, 5, 5]), 3));
  expect(grown.times).toEqual([T + 1000, T + 2000, T + 3000]);
  expect([...grown.cells]).toEqual([2, 2, 4, 4, 5, 5]);
});

test("a map that is opened early grows to its window, and each division of it is told once", () => {
  const owned = (id: string) => [{ id, firstRow: 0, rows: 2, budgetRuPerSecond: 400 }];
  let known = heat([T], [1, 1], { epochs: [{ from: T, ranges: owned("0") }] });
  for (let second = 1; second <= 9; second++) {
    const [from, ranges] = second < 5 ? [T, owned("0")] : [T + 5000, owned("1")];
    known = append(known, heat([T + second * 1000], [second, second], { epochs: [{ from, ranges }] }), 6);
  }
  expect(known.times).toEqual([4, 5, 6, 7, 8, 9].map((second) => T + second * 1000));
  expect(known.epochs.map(({ ranges }) => ranges[0]?.id)).toEqual(["0", "1"]);
});

test("answers whose times differ by some milliseconds merge into the matrix of one whole answer", () => {
  const owned = (id: string, budget: number) => [{ id, firstRow: 0, rows: 2, budgetRuPerSecond: budget }];
  /** Columns from one number to another, as a server answers whose clock is `off` by so much. */
  const answer = (first: number, last: number, off: number, open: number): Heat => {
    const columns = Array.from({ length: last - first + 1 }, (_, at) => first + at);
    const at = (column: number) => T + column * 1000 + off;
    const cell = (column: number) => (column === last ? open : column);
    return heat(
      columns.map(at),
      columns.flatMap((column) => [cell(column), -cell(column)]),
      {
        firstSequence: first,
        sequence: last,
        throttled: columns.map((column) => [at(column), 0, 1, cell(column) / 100]),
        epochs: [
          { from: at(0), ranges: owned("0", 400) },
          ...(last >= 5 ? [{ from: at(5), ranges: owned("1", 900) }] : []),
        ],
        events: columns.filter((column) => column === 5).map((column) => ({ time: at(column), kind: "throughput" })),
        knownSince: at(0),
      },
    );
  };
  let known = answer(0, 4, 0, 0.5);
  for (const [last, off] of [
    [5, 12],
    [6, -12],
    [8, 5],
  ] as const) {
    known = append(known, answer(known.sequence, last, off, 0.5), 600);
    expect(known).toEqual(answer(0, last, off, 0.5));
  }
  expect(modelOf(known).throttled.map(({ column }) => column)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test("columns that do not follow the known ones begin anew", () => {
  const known = heat([T, T + 1000], [1, 1, 2, 2]);
  const later = heat([T + 9000], [7, 7]);
  expect(append(known, later, 600)).toBe(later);
});

test("another division of rows begins anew", () => {
  const known = heat([T], [1, 1]);
  const other = heat([T + 1000], [7, 7], { rowBounds: ["", "30", "FF"] });
  expect(append(known, other, 3)).toBe(other);
});

test("the hottest cells come first, unknown ones never", () => {
  const model = modelOf(heat([T, T + 1000], [0.5, Number.NaN, 0.9, 0]));
  expect(hottest(model, 5).map(({ value }) => Math.round(value * 10))).toEqual([9, 5]);
});

test("a zoom in time shifts what is drawn over it", () => {
  const model = sliceTimes(modelOf(heat([T, T + 1000, T + 2000], [1, 1, 2, 2, 3, 3])), T + 1000, T + 2000);
  expect([...model.cells]).toEqual([2, 2, 3, 3]);
  expect(columnAt(model.times, T + 500)).toBe(-1);
});

test("shares by sliders keep their sum and their bounds", () => {
  for (const wanted of [1, 50, 399, 900, 5000]) {
    const next = withShare({ a: 300, b: 300, c: 400 }, "a", wanted, 900);
    expect(
      Object.values(next).reduce((sum, share) => sum + share, 0),
      String(wanted),
    ).toBe(1000);
    for (const share of Object.values(next)) expect(share).toBeGreaterThanOrEqual(1);
  }
});
