// The programs of docs/connect.md for the Node.js driver and mongosh, pasted as a newcomer would do it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { MongoClient } from "mongodb";

const uri = process.env.SHARDLAKE_MONGO;
const address = "mongodb://127.0.0.1:27017/";
const run = promisify(execFile);

function shell() {
  const require = createRequire(import.meta.url);
  const { bin } = require("mongosh/package.json");
  return join(dirname(require.resolve("mongosh/package.json")), typeof bin === "string" ? bin : bin.mongosh);
}

describe("the page about connecting", () => {
  it("has a program for the driver and a command for the shell, which run", async () => {
    const page = await readFile(join(process.env.SHARDLAKE_DOCS, "connect.md"), "utf8");
    const program = page.match(/^```js\n(const { MongoClient }.*?)^```$/ms)[1];
    const command = page.match(/^mongosh --quiet mongodb:\/\/127\.0\.0\.1:27017\/shop --eval '(.*)'$/m)[1];
    assert.ok(program.includes(address) && program.includes('"shop"'));
    const database = `js_${randomUUID().slice(0, 8)}`;
    // Among the installed packages, with a package.json as npm makes it.
    const directory = await mkdtemp(resolve("snippet-"));
    const home = await mkdtemp(join(tmpdir(), "shardlake-mongosh-"));
    const client = new MongoClient(uri);
    try {
      await writeFile(join(directory, "package.json"), "{}");
      await writeFile(join(directory, "try.js"), program.replace(address, uri).replace('"shop"', `"${database}"`));
      const ran = await run(process.execPath, ["try.js"], { cwd: directory });
      assert.deepEqual(ran, { stdout: "{ customer: 'ada', total: 12 }\n", stderr: "" });
      const environment = { ...process.env, HOME: home, MONGOSH_FORCE_DISABLE_TELEMETRY_FOR_TESTING: "1" };
      const arguments_ = [shell(), "--quiet", new URL(database, uri).href, "--norc", "--eval", command];
      const printed = await run(process.execPath, arguments_, { env: environment });
      assert.equal(printed.stdout, "[ { total: 12 } ]\n");
    } finally {
      await client.db(database).dropDatabase();
      await client.close();
      await rm(directory, { recursive: true });
      await rm(home, { recursive: true });
    }
  });
});
