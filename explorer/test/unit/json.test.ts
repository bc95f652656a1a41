import fc from "fast-check";
import { expect, test } from "vitest";
import { asciiJson, cells, compact, pretty, rowsOf, valueAt } from "../../src/client/json";
import { check } from "../../src/client/json-check";
import { keyOf, pathNames, readKey } from "../../src/client/key";

const value = fc.jsonValue({ maxDepth: 5 });

test("laying out changes space and nothing else", () => {
  fc.assert(
    fc.property(value, (any) => {
      const text = JSON.stringify(any);
      expect(compact(pretty(text))).toBe(text);
      expect(pretty(text)).toBe(JSON.stringify(any, null, 2));
      expect(pretty(pretty(text))).toBe(pretty(text));
    }),
  );
});

test("splitting a feed is the same as parsing it", () => {
  fc.assert(
    fc.property(fc.array(value), (list) => {
      const text = `{"_rid":"x","Documents":${JSON.stringify(list)},"_count":${list.length}}`;
      expect(rowsOf(text)).toEqual(list.map((one) => JSON.stringify(one)));
    }),
  );
});

test("cells are the tokens of the members", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), value), (item) => {
      const found = cells(JSON.stringify(item));
      const expected = JSON.parse(JSON.stringify(item)) as Record<string, unknown>;
      expect([...found.keys()].sort()).toEqual(Object.keys(expected).sort());
      for (const [name, token] of found) expect(JSON.parse(token)).toEqual(expected[name]);
    }),
  );
});

test("numbers come out as they went in", () => {
  const text = '{"a":9007199254740993,"b":-0,"c":1.0,"d":1e21,"e":9223372036854775807,"f":0.1000}';
  expect(compact(pretty(text))).toBe(text);
  expect(valueAt(text, ["a"])).toBe("9007199254740993");
});

test("the checker agrees with JSON.parse on what is JSON", () => {
  const damaged = fc
    .tuple(value, fc.nat(), fc.constantFrom("", "x", "}", '"', ",", "\n", "\\"))
    .map(([any, at, extra]) => {
      const text = JSON.stringify(any);
      const place = at % (text.length + 1);
      return text.slice(0, place) + extra + text.slice(place + (at % 2));
    });
  fc.assert(
    fc.property(damaged, (text) => {
      // Numbers that no double holds are JSON, and refused all the same: the next test.
      fc.pre(!check(text).some(({ words }) => words.includes("too large")));
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        isJson = false;
      }
      expect(
        check(text).some(({ isError }) => isError),
        text,
      ).toBe(!isJson);
    }),
    { numRuns: 2000 },
  );
});

test("mistakes have their place, doubts are no mistakes", () => {
  expect(check('{"a": tru}')).toMatchObject([{ at: 6, isError: true }]);
  expect(check('{"a": 1e400}')).toMatchObject([{ at: 6, isError: true }]);
  expect(check(`${"[".repeat(130)}`)[0]?.words).toMatch(/128 levels/);
  expect(check('{"a":1,"a":2}')).toMatchObject([{ isError: false, at: 7 }]);
  expect(check('{"a":9007199254740993}')).toMatchObject([{ isError: false }]);
  expect(check('{"a":9007199254740992}')).toEqual([]);
});

test("partition keys are made of the item's own tokens", () => {
  expect(keyOf('{"a":1.0,"b":{"c":"x"}}', ["/a", "/b/c", "/missing"])).toBe('[1.0,"x",{}]');
  expect(keyOf('{"a":null}', ["/a"])).toBe("[null]");
  expect(pathNames('/a/"b/c"/d')).toEqual(["a", "b/c", "d"]);
  expect([readKey("ada"), readKey('"ada"'), readKey('["ada",1]'), readKey("7"), readKey(" ")]).toEqual([
    '["ada"]',
    '["ada"]',
    '["ada",1]',
    "[7]",
    null,
  ]);
});

test("header text is ASCII and means the same", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      const header = asciiJson(JSON.stringify([text]));
      expect(/^[\x20-\x7e]*$/.test(header)).toBe(true);
      expect(JSON.parse(header)).toEqual([text]);
    }),
  );
});
