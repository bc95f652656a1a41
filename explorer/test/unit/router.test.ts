import fc from "fast-check";
import { expect, test } from "vitest";
import { pathOf, readFragment, segmentsOf, writeFragment } from "../../src/kit/router";
import { pack, unpack } from "../../src/kit/deflate";

const HOSTILE = [
  ".",
  "..",
  "~",
  "~.",
  "a/b",
  "a%2Fb",
  "?#",
  " a ",
  "💡",
  "\u202eabc",
  "null",
  '["ada"]',
  "<img src=x>",
  "a&b=c",
  "'\"",
];

test("hostile names survive an address as a browser resolves it", () => {
  for (const name of HOSTILE) {
    const url = new URL(pathOf(["c", name, "coll", "items", name]), "http://127.0.0.1:1/");
    expect(segmentsOf(url.pathname), name).toEqual(["c", name, "coll", "items", name]);
  }
});

test("any well-formed name survives an address", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "grapheme", minLength: 1 }), { minLength: 1, maxLength: 4 }), (names) => {
      fc.pre(names[0] !== "index.html");
      expect(segmentsOf(new URL(pathOf(names), "http://127.0.0.1/").pathname)).toEqual(names);
    }),
  );
});

test("state survives a fragment, and what is empty is left out", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.string({ minLength: 1 })), (state) => {
      expect(Object.entries(readFragment(writeFragment(state))).sort()).toEqual(Object.entries(state).sort());
    }),
  );
  expect(writeFragment({ b: "", a: "1" })).toBe("#a=1");
  expect({ ...readFragment("#%zz=1&a=%zz&b=2") }).toEqual({ b: "2" });
});

test("addresses that are not ours lead home", () => {
  expect(segmentsOf("/_explorer/")).toEqual([]);
  expect(segmentsOf("/_explorer/index.html")).toEqual([]);
  expect(segmentsOf("/_explorer/c/%ff")).toEqual([]);
  expect(segmentsOf("/elsewhere")).toEqual([]);
});

test("long state is packed and unpacked", async () => {
  const text = "SELECT * FROM c WHERE c.name = 'ü💡' -- ".repeat(50);
  const packed = await pack(text);
  expect(packed.length).toBeLessThan(200);
  expect(/^[\w-]+$/.test(packed)).toBe(true);
  expect(await unpack(packed)).toBe(text);
  expect(await unpack("!!!")).toBeNull();
});
