import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readPasted } from "../../src/client/pasted";
import { authorization, importKey, signedText, WELL_KNOWN_KEY } from "../../src/client/sign";

interface Vector {
  verb: string;
  resourceType: string;
  resourceId: string;
  date: string;
  token: string;
}

const file = new URL("../../../crates/testkit/vectors/signatures.json", import.meta.url);
const told = JSON.parse(readFileSync(file, "utf8")) as Vector[] | { vectors: Vector[]; key?: string };
const vectors = Array.isArray(told) ? told : told.vectors;

test("requests are signed as the other clients sign them", async () => {
  const key = await importKey(WELL_KNOWN_KEY);
  expect(vectors.length).toBeGreaterThan(5);
  for (const { verb, resourceType, resourceId, date, token } of vectors) {
    const signed = await authorization(key, { verb, resourceType, link: resourceId, date });
    expect(decodeURIComponent(signed), `${verb} ${resourceType} ${resourceId}`).toBe(decodeURIComponent(token));
  }
});

test("an imported key cannot be read again", async () => {
  const key = await importKey(WELL_KNOWN_KEY);
  expect(key.extractable).toBe(false);
  await expect(crypto.subtle.exportKey("raw", key)).rejects.toThrow();
});

test("the link keeps its case, everything else is lower case", () => {
  const text = signedText({ verb: "GET", resourceType: "Docs", link: "dbs/A/colls/B", date: "Thu, 27 Apr 2017" });
  expect(text).toBe("get\ndocs\ndbs/A/colls/B\nthu, 27 apr 2017\n\n");
});

test("what people paste is understood", () => {
  expect(readPasted(" abc== ")).toEqual({ key: "abc==" });
  expect(readPasted("AccountEndpoint=https://x:1/;AccountKey=abc==;")).toEqual({
    endpoint: "https://x:1/",
    key: "abc==",
  });
  expect(readPasted("type=resource&ver=1&sig=x").token).toBe("type=resource&ver=1&sig=x");
  expect(readPasted("type%3dresource%26ver%3d1").token).toBeDefined();
});

test("what is no key is refused in words", async () => {
  await expect(importKey("not a key!")).rejects.toThrow(/base64/);
  await expect(importKey("")).rejects.toThrow(/empty/);
});
