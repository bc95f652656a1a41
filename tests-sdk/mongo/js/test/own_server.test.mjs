// Users and budgets as applications meet them. The suite's server asks nobody who he is and refuses nothing for its throughput, so this file brings
// its own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";

const key = "YSBrZXkgb2YgYSBzdWl0ZSwgYW5kIG9mIG5vdGhpbmcgZWxzZQ==";
// SASLprep makes two letters of the last character; a URI has to encode most of the others.
const password = "p/ss: wörd%@Ⅸ";
const mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-1"];
const transports = ["plain", "tls"];
const unauthorized = { code: 13 };
const authenticationFailed = { code: 18 };
const tooManyRequests = 16500;
// Turns a hang into a failure.
const attemptsMax = 10000;

let server, directory, address, caFile, owner;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "shardlake-mongo-"));
  const keys = join(directory, "keys.json");
  await writeFile(keys, JSON.stringify({ primary: key }));
  const seconds = ["request", "header", "idle"].map((name) => `--${name}-seconds=3600`);
  const listen = ["--listen=127.0.0.1:0", "--mongo-listen=127.0.0.1:0", "--mongo-test-commands", "--log-level=error"];
  const flags = ["serve", ...listen, ...seconds, `--key-file=${keys}`, `--data-dir=${join(directory, "data")}`];
  // What begins with SHARDLAKE_ is a setting to a server, and an unknown one an error.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SHARDLAKE_")));
  server = spawn(process.env.SHARDLAKE_BINARY, flags, { env, stdio: ["ignore", "pipe", "inherit"] });
  const [ready] = await once(createInterface(server.stdout), "line");
  const { mongo, ca_file } = JSON.parse(ready);
  [address, caFile] = [new URL(mongo[0]).host, ca_file];
  owner = await client("localhost", key);
});

after(async () => {
  await owner?.close();
  const ended = once(server, "exit");
  server.kill("SIGTERM");
  await ended;
  await rm(directory, { recursive: true });
});

/** A client by an address as an application's settings hold it. */
function client(user, password, { transport = "plain", ...options } = {}, source = "admin", mechanism) {
  const host = transport === "tls" ? address.replace("127.0.0.1", "localhost") : address;
  const query = new URLSearchParams({ authSource: source });
  if (mechanism) query.set("authMechanism", mechanism);
  if (transport === "tls") {
    query.set("tls", "true");
    query.set("tlsCAFile", caFile);
  }
  const uri = `mongodb://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}/?${query}`;
  return new MongoClient(uri, { serverSelectionTimeoutMS: 20000, ...options });
}

const unique = () => `js_${randomUUID().slice(0, 12)}`;
const numbered = (count) => Array.from({ length: count }, (_, n) => ({ _id: n }));

describe("users", () => {
  let db, other, opened;

  beforeEach(async () => {
    [db, other, opened] = [owner.db(unique()), owner.db(unique()), []];
    for (const one of [db, other]) await one.collection("c").insertMany(numbered(20));
  });

  afterEach(async () => {
    await Promise.all(opened.map((one) => one.close()));
    for (const one of [db, other]) {
      await one.command({ dropAllUsersFromDatabase: 1 });
      await one.dropDatabase();
    }
  });

  const make = (createUser, ...roles) => db.command({ createUser, pwd: password, roles });

  function signedIn(user, options, { word = password, source = db.databaseName, mechanism } = {}) {
    opened.push(client(user, word, options, source, mechanism));
    return opened.at(-1);
  }

  for (const transport of transports) {
    for (const mechanism of [...mechanisms, undefined]) {
      it(`sign in with ${mechanism ?? "what the server offers"}, ${transport}`, async () => {
        await make("ada", "readWrite");
        const ada = signedIn("ada", { transport }, { mechanism });
        const { authInfo } = await ada.db("admin").command({ connectionStatus: 1 });
        assert.deepEqual(authInfo.authenticatedUsers, [{ user: "ada", db: db.databaseName }]);
        assert.deepEqual(authInfo.authenticatedUserRoles, [{ role: "readWrite", db: db.databaseName }]);
        await ada.db(db.databaseName).collection("signed").insertOne({ _id: 1 });
        assert.equal(await db.collection("signed").countDocuments(), 1);
        for (const wrong of [{ word: "another" }, { source: "admin" }, { source: other.databaseName }]) {
          const intruder = signedIn("ada", { transport }, { mechanism, ...wrong });
          await assert.rejects(intruder.db(db.databaseName).collection("c").findOne(), authenticationFailed);
        }
      });
    }

    it(`with readWrite write on their database alone, ${transport}`, async () => {
      await make("ada", "readWrite");
      const ada = signedIn("ada", { transport });
      const [here, there] = [db, other].map((one) => ada.db(one.databaseName).collection("c"));
      await here.insertOne({ _id: "new", n: 1 });
      assert.equal((await here.updateOne({ _id: "new" }, { $inc: { n: 1 } })).modifiedCount, 1);
      assert.equal((await here.findOneAndDelete({ _id: "new" })).n, 2);
      for (const refused of [
        () => there.insertOne({ _id: "new" }),
        () => there.insertMany([{}, {}], { ordered: false }),
        () => there.updateOne({ _id: 1 }, { $set: { n: 1 } }),
        () => there.deleteMany({}),
        () => there.findOne(),
        () => there.drop(),
        () => here.aggregate([{ $out: { db: other.databaseName, coll: "copy" } }]).toArray(),
        () => ada.db(db.databaseName).command({ createUser: "eve", pwd: "x", roles: ["readWrite"] }),
      ]) {
        await assert.rejects(refused(), unauthorized, String(refused));
      }
      const listed = await ada.db().admin().listDatabases({ nameOnly: true });
      assert.deepEqual(listed.databases.map(({ name }) => name), [db.databaseName]);
      assert.deepEqual(await other.collection("c").find().sort({ _id: 1 }).toArray(), numbered(20));
    });

    it(`with read do not write, ${transport}`, async () => {
      await make("reader", "read");
      const here = signedIn("reader", { transport }).db(db.databaseName);
      assert.equal((await here.collection("c").find({}, { batchSize: 3 }).toArray()).length, 20);
      for (const refused of [
        () => here.collection("c").insertOne({}),
        () => here.collection("c").bulkWrite([{ insertOne: { document: {} } }]),
        () => here.collection("c").replaceOne({ _id: 1 }, { n: 1 }),
        () => here.collection("c").findOneAndUpdate({ _id: 1 }, { $set: { n: 1 } }),
        () => here.collection("c").deleteOne({ _id: 1 }),
        () => here.collection("c").aggregate([{ $merge: "c" }]).toArray(),
        () => here.createCollection("made"),
        () => here.collection("c").createIndex({ n: 1 }),
        () => here.dropDatabase(),
      ]) {
        await assert.rejects(refused(), unauthorized, String(refused));
      }
      assert.deepEqual(await db.collection("c").find().sort({ _id: 1 }).toArray(), numbered(20));
    });

    it(`whose password changes keep what is open, and need the new one for more, ${transport}`, async () => {
      await make("ada", "readWrite");
      const appName = `${db.databaseName} ${transport}`;
      const before = signedIn("ada", { transport, appName }).db(db.databaseName).collection("c");
      const cursor = before.find({}, { batchSize: 2 }).sort({ _id: 1 });
      assert.deepEqual(await cursor.next(), { _id: 0 });
      await db.command({ updateUser: "ada", pwd: "another" });
      assert.deepEqual(await cursor.toArray(), numbered(20).slice(1));
      await before.insertOne({ _id: "after" });
      for (const mechanism of mechanisms) {
        const [old, now] = [password, "another"].map((word) => signedIn("ada", { transport }, { word, mechanism }));
        await assert.rejects(old.db(db.databaseName).collection("c").findOne(), authenticationFailed);
        assert.deepEqual(await now.db(db.databaseName).collection("c").findOne({ _id: 1 }), { _id: 1 });
      }
      // A client that has to connect again is told, and not left waiting.
      const data = { failCommands: ["find"], closeConnection: true, appName };
      await owner.db("admin").command({ configureFailPoint: "failCommand", mode: { times: 1 }, data });
      await assert.rejects(before.findOne({ _id: 1 }), authenticationFailed);
      await db.command({ updateUser: "ada", pwd: password });
      assert.deepEqual(await before.findOne({ _id: 1 }), { _id: 1 }, "with what it has, again");
    });

    it(`who were dropped are refused on open connections, ${transport}`, async () => {
      await make("ada", "readWrite");
      const here = signedIn("ada", { transport }).db(db.databaseName).collection("c");
      const cursor = here.find({}, { batchSize: 2 });
      await cursor.next();
      const stream = here.watch([], { maxAwaitTimeMS: 1 });
      assert.equal(await stream.tryNext(), null);
      await db.command({ dropUser: "ada" });
      for (const refused of [
        () => here.findOne(),
        () => cursor.toArray(),
        () => stream.tryNext(),
        () => here.insertOne({ _id: "ghost" }),
      ]) {
        await assert.rejects(refused(), unauthorized, String(refused));
      }
      await assert.rejects(signedIn("ada", { transport }).db(db.databaseName).collection("c").findOne(), authenticationFailed);
      // Another user of that name is another user.
      await make("ada", "readWrite");
      await assert.rejects(here.findOne(), unauthorized);
      assert.ok(await signedIn("ada", { transport }).db(db.databaseName).collection("c").findOne());
      assert.equal(await db.collection("c").countDocuments({ _id: "ghost" }), 0);
    });
  }

  for (const [only, lacking] of [mechanisms, mechanisms.toReversed()]) {
    it(`of ${only} alone sign in by that, also where the driver is told none`, async () => {
      await db.command({ createUser: "ada", pwd: password, roles: ["read"], mechanisms: [only] });
      for (const mechanism of [only, undefined]) {
        assert.ok(await signedIn("ada", {}, { mechanism }).db(db.databaseName).collection("c").findOne());
      }
      const refused = signedIn("ada", {}, { mechanism: lacking });
      await assert.rejects(refused.db(db.databaseName).collection("c").findOne(), authenticationFailed);
    });
  }

  it("are told without what proves them", async () => {
    await make("ada", "read", { role: "readWrite", db: other.databaseName });
    await make("bob", "read");
    const { users } = await db.command({ usersInfo: 1 });
    assert.deepEqual(users.map(({ user }) => user), ["ada", "bob"]);
    assert.deepEqual([...users[0].mechanisms].sort(), [...mechanisms].sort());
    assert.equal(users[0].roles.length, 2);
    assert.ok(!("credentials" in users[0]));
    const bob = signedIn("bob").db(db.databaseName);
    assert.equal((await bob.command({ usersInfo: "bob" })).users.length, 1);
    await assert.rejects(bob.command({ usersInfo: "ada" }), unauthorized);
  });
});

const waitOf = (words) => Number(/RetryAfterMs=(\d+)/.exec(words)[1]);

/** What applications do for Cosmos DB: they wait as they are told and send the operation again. */
async function repeated(operation, counted = { refusals: 0 }) {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    try {
      return await operation();
    } catch (error) {
      if (error.code !== tooManyRequests) throw error;
      counted.refusals++;
      await pause(waitOf(error.message));
    }
  }
  throw new Error("it was refused again and again");
}

describe("budgets", () => {
  let db, things;

  beforeEach(async () => {
    db = owner.db(unique());
    things = db.collection("c");
    await create();
  });

  afterEach(() => db.dropDatabase());

  const create = () => db.command({ customAction: "CreateCollection", collection: "c", offerThroughput: 400 });

  /** However slow the machine: a scenario, which says how often it was refused, is played anew until it was. */
  async function untilRefused(scenario) {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      await overload(50_000);
      if ((await scenario()) > 0) return;
      await things.drop();
      await create();
    }
    throw new Error("nothing was refused");
  }

  /** Spends the budget of some seconds: until a write is refused. */
  async function overload(bytes) {
    const pad = "x".repeat(bytes);
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const error = await things.insertOne({ pad }).then(() => null, (error) => error);
      if (error) return assert.equal(error.code, tooManyRequests, error);
    }
    throw new Error("nothing was refused");
  }

  /** However slow the machine: it is asked again until its budget is spent when it asks. */
  async function refused(operation) {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      await overload(1_000_000);
      const error = await operation().then(() => null, (error) => error);
      if (error) return error;
    }
    throw new Error("nothing was refused");
  }

  it("say how long to wait", async () => {
    for (const operation of [
      () => things.insertOne({ _id: 1 }),
      () => things.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { upsert: true }),
      () => things.deleteOne({ _id: 1 }),
      () => things.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, { upsert: true }),
      () => things.findOne({ _id: 1 }),
    ]) {
      const error = await refused(operation);
      assert.equal(error.code, tooManyRequests, String(operation));
      assert.match(error.message, /^Error=16500, RetryAfterMs=[1-9]/);
      assert.ok(!error.hasErrorLabel("RetryableWriteError"));
    }
  });

  for (const retries of [true, false]) {
    it(`are not the driver's to wait for, with ${retries ? "" : "no "}retries`, async () => {
      const options = { retryWrites: retries, retryReads: retries, monitorCommands: true };
      const watched = client("localhost", key, options);
      const sent = [];
      watched.on("commandStarted", ({ commandName, command }) => sent.push([commandName, command]));
      const collection = watched.db(db.databaseName).collection("c");
      const send = (operation) => {
        sent.length = 0;
        return operation();
      };
      try {
        const written = await refused(() => send(() => collection.insertOne({ _id: 1 })));
        assert.equal(written.code, tooManyRequests);
        const inserts = sent.filter(([name]) => name === "insert");
        assert.equal(inserts.length, 1);
        assert.equal("txnNumber" in inserts[0][1], retries, "a write that may be repeated after other errors");
        const read = await refused(() => send(() => collection.findOne({ _id: 1 })));
        assert.equal(read.code, tooManyRequests);
        assert.equal(sent.filter(([name]) => name === "find").length, 1);
      } finally {
        await watched.close();
      }
    });
  }

  it("have everything written once by who waits and repeats", () => untilRefused(writeSideBySide));

  async function writeSideBySide() {
    const [names, count, counted] = [["a", "b", "c", "d"], 12, { refusals: 0 }];
    await Promise.all(
      names.map(async (name) => {
        for (let n = 0; n < count; n++) {
          // A document that had been written all the same would be there already when it comes again: 11000.
          await repeated(() => things.insertOne({ _id: `${name} ${n}`, name, pad: "x".repeat(500) }), counted);
          await repeated(() => things.updateOne({ _id: name }, { $inc: { n: 1 } }, { upsert: true }), counted);
          await repeated(() => things.findOneAndUpdate({ _id: "all" }, { $inc: { n: 1 } }, { upsert: true }), counted);
        }
      }),
    );
    const counters = await repeated(() => things.find({ n: { $exists: true } }).toArray());
    const wanted = { all: names.length * count, ...Object.fromEntries(names.map((name) => [name, count])) };
    assert.deepEqual(Object.fromEntries(counters.map(({ _id, n }) => [_id, n])), wanted);
    assert.equal(await repeated(() => things.countDocuments({ name: { $in: names } })), names.length * count);
    return counted.refusals;
  }

  for (const ordered of [true, false]) {
    it(`leave the rest of a bulk write to be sent again, ${ordered ? "in order" : "in any order"}`, () => untilRefused(() => writeInBulk(ordered)));
  }

  async function writeInBulk(ordered) {
    let left = Array.from({ length: 120 }, (_, n) => ({ _id: n, pad: "x".repeat(500) }));
    let [refusals, inserted] = [0, 0];
    while (left.length > 0) {
      try {
        inserted += (await things.insertMany(left, { ordered })).insertedCount;
        left = [];
      } catch (error) {
        const failed = error.writeErrors;
        assert.ok(failed?.every(({ code }) => code === tooManyRequests), error);
        assert.ok(++refusals < attemptsMax);
        inserted += error.insertedCount;
        left = ordered ? left.slice(failed[0].index) : failed.map(({ index }) => left[index]);
        await pause(waitOf(failed[0].errmsg));
      }
    }
    assert.equal(inserted, 120);
    assert.equal(await repeated(() => things.countDocuments({ _id: { $lt: 120 } })), 120);
    return refusals;
  }
});
