import fc from "fast-check";
import { expect, test } from "vitest";
import { compact } from "../../src/client/json";
import { difference, merge } from "../../src/editor/merge";

const item = fc
  .dictionary(fc.constantFrom("a", "b", "c", "d"), fc.jsonValue({ maxDepth: 3 }))
  .map((any) => JSON.stringify(any));

test("one who changed nothing gets what the other wrote", () => {
  fc.assert(
    fc.property(item, item, (base, other) => {
      expect(JSON.parse(merge(base, base, other, () => false).text)).toEqual(JSON.parse(other));
      expect(JSON.parse(merge(base, other, base, () => false).text)).toEqual(JSON.parse(other));
      expect(merge(base, base, other, () => true).changes.some(({ isConflict }) => isConflict)).toBe(false);
    }),
  );
});

test("changes to different members are both kept", () => {
  const merged = merge(
    '{"a":1,"b":2,"n":9007199254740993}',
    '{"a":5,"b":2,"n":9007199254740993}',
    '{"a":1,"b":7,"n":9007199254740993}',
    () => false,
  );
  expect(merged.text).toBe('{"a":5,"b":7,"n":9007199254740993}');
  expect(merged.changes.filter(({ isConflict }) => isConflict)).toEqual([]);
});

test("a change to the same place is chosen, never lost in silence", () => {
  const merged = (mine: boolean) => merge('{"a":1}', '{"a":2}', '{"a":3}', () => mine);
  expect([merged(true).text, merged(false).text]).toEqual(['{"a":2}', '{"a":3}']);
  expect(merged(true).changes).toMatchObject([{ path: "/a", isConflict: true, base: "1", mine: "2", theirs: "3" }]);
});

test("system properties are always theirs", () => {
  const merged = merge('{"a":1,"_etag":"1"}', '{"a":2,"_etag":"1"}', '{"a":1,"_etag":"2"}', () => true);
  expect(merged.text).toBe('{"a":2,"_etag":"2"}');
});

test("a difference names each changed path", () => {
  expect(difference('{"a":{"b":1},"c":[1]}', '{"a":{"b":2},"d":null,"c":[1]}')).toMatchObject([
    { path: "/a/b", base: "1", theirs: "2" },
    { path: "/d", base: undefined, theirs: "null" },
  ]);
  fc.assert(
    fc.property(item, (one) => {
      expect(difference(one, compact(one))).toEqual([]);
    }),
  );
});
