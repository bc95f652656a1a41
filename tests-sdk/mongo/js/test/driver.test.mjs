// Our suite for the Node.js driver of MongoDB, against a running server.

import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { after, before, beforeEach, afterEach, describe, it } from "node:test";
import { BSON, Decimal128, Long, MongoClient, ObjectId } from "mongodb";

const uri = process.env.SHARDLAKE_MONGO;
const key = process.env.SHARDLAKE_KEY;
const caFile = process.env.SHARDLAKE_CA_FILE;
const options = { serverSelectionTimeoutMS: 20000 };

async function connected(more, work, address = uri) {
  const client = new MongoClient(address, { ...options, ...more });
  try {
    return await work(await client.connect());
  } finally {
    await client.close();
  }
}

describe("connections", () => {
  it("greets as a router", () =>
    connected({}, async (client) => {
      const hello = await client.db("admin").command({ hello: 1 });
      assert.equal(hello.msg, "isdbgrid");
      assert.equal(hello.maxWireVersion, 25);
    }));

  it("speaks TLS on the same port", { skip: !caFile && "the certificate comes from outside" }, () =>
    connected(
      { tls: true, tlsCAFile: caFile },
      async (client) => assert.equal((await client.db("admin").command({ ping: 1 })).ok, 1),
      uri.replace("127.0.0.1", "localhost"),
    ));

  for (const authMechanism of ["SCRAM-SHA-256", "SCRAM-SHA-1", "DEFAULT"]) {
    it(`proves a key of the account with ${authMechanism}`, () =>
      connected({ auth: { username: "localhost", password: key }, authMechanism }, async (client) => {
        const { authInfo } = await client.db("admin").command({ connectionStatus: 1 });
        assert.equal(authInfo.authenticatedUsers[0].user, "localhost");
      }));

    it(`refuses another password with ${authMechanism}`, () =>
      assert.rejects(
        connected({ auth: { username: "localhost", password: "wrong" }, authMechanism }, (client) =>
          client.db("admin").command({ ping: 1 }),
        ),
        { code: 18 },
      ));
  }

  it("compresses with zlib", () =>
    connected({ compressors: ["zlib"] }, async (client) => {
      const db = client.db(`js_${randomUUID().slice(0, 12)}`);
      const text = "shardlake ".repeat(20000);
      await db.collection("c").insertOne({ _id: 1, text });
      assert.equal((await db.collection("c").findOne({ _id: 1 })).text, text);
      await db.dropDatabase();
    }));

  it("names what is not there", () =>
    connected({}, (client) => assert.rejects(client.db("admin").command({ nosuch: 1 }), { code: 59 })));
});

describe("documents", () => {
  let client, db;
  before(async () => (client = await new MongoClient(uri, options).connect()));
  after(() => client.close());
  beforeEach(() => (db = client.db(`js_${randomUUID().slice(0, 12)}`)));
  afterEach(() => db.dropDatabase());

  it("keeps types", async () => {
    const document = {
      _id: new ObjectId(),
      decimal: Decimal128.fromString("1.10"),
      long: Long.fromString("9007199254740993"),
      date: new Date("2026-11-23T01:02:03.004Z"),
      list: [1, 1.5, null, { a: true }],
    };
    const things = db.collection("things", { promoteLongs: false });
    await things.insertOne(document);
    assert.deepEqual(await things.findOne({ _id: document._id }), { ...document, list: document.list });
  });

  it("writes, reads, changes and deletes", async () => {
    const things = db.collection("things");
    await things.insertMany(Array.from({ length: 300 }, (_, n) => ({ _id: n, n: n % 3 })));
    assert.equal(await things.countDocuments({ n: 1 }), 100);
    const ids = (await things.find({ n: 2 }, { batchSize: 7 }).sort({ _id: -1 }).toArray()).map((found) => found._id);
    assert.deepEqual(ids, Array.from({ length: 100 }, (_, n) => 299 - 3 * n));
    const { matchedCount, modifiedCount } = await things.updateMany({ n: 1 }, { $set: { n: 1, m: 5 } });
    assert.deepEqual([matchedCount, modifiedCount], [100, 100]);
    const changed = await things.findOneAndUpdate({ _id: 0 }, { $inc: { n: 7 } }, { returnDocument: "after" });
    assert.equal(changed.n, 7);
    assert.equal((await things.deleteMany({ n: 2 })).deletedCount, 100);
    const groups = await things.aggregate([{ $group: { _id: "$n", count: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray();
    assert.deepEqual(groups, [{ _id: 0, count: 99 }, { _id: 1, count: 100 }, { _id: 7, count: 1 }]);
  });

  it("writes, reads and changes ten megabytes", async () => {
    const things = db.collection("things");
    // As applications have them: a file, a text, and a long list.
    const document = {
      _id: 1,
      file: randomBytes(4 << 20),
      text: "Ä shard in a lake. ".repeat((4 << 20) / 20),
      list: Array.from({ length: 40000 }, (_, n) => ({ n, half: n / 2, name: `entry ${n}` })),
      version: 1,
    };
    const same = async (filter) => {
      const [found, wanted] = [await things.findOne(filter), document].map((one) => BSON.serialize(one));
      assert.ok(Buffer.from(found).equals(Buffer.from(wanted)), `${found.length} bytes for ${wanted.length}`);
    };
    assert.ok(BSON.calculateObjectSize(document) > 10_000_000);
    await things.insertOne(document);
    await same({ _id: 1 });
    const changes = { $inc: { version: 1 }, $set: { "list.7.name": "seven", more: [7] }, $push: { late: { n: -1 } } };
    assert.equal((await things.updateOne({ _id: 1 }, changes)).modifiedCount, 1);
    document.version = 2;
    document.list[7].name = "seven";
    Object.assign(document, { late: [{ n: -1 }], more: [7] });
    await same({ "list.n": 39999 });
    const after = await things.findOneAndUpdate({ _id: 1 }, { $inc: { version: 1 } }, { projection: { version: 1 }, returnDocument: "after" });
    assert.deepEqual(after, { _id: 1, version: 3 });
    Object.assign(document, { file: randomBytes(4 << 20), version: 4 });
    assert.equal((await things.replaceOne({ _id: 1 }, document)).modifiedCount, 1);
    await same({ version: 4 });
    // 10334: what it would grow to is too large, and it stays as it was.
    await assert.rejects(things.updateOne({ _id: 1 }, { $set: { most: "x".repeat(7 << 20) } }), { code: 10334 });
    await same({ _id: 1 });
    assert.equal((await things.deleteOne({ _id: 1 })).deletedCount, 1);
  });

  it("tells of duplicate keys", async () => {
    const people = db.collection("people");
    await people.createIndex({ mail: 1 }, { unique: true });
    await people.insertOne({ mail: "a@b" });
    await assert.rejects(people.insertOne({ mail: "a@b" }), { code: 11000 });
  });

  it("repeats a write whose answer was lost, which is done once", async () => {
    const admin = client.db("admin");
    const data = { failCommands: ["update"], closeConnection: true };
    await admin.command({ configureFailPoint: "failCommand", mode: { times: 1 }, data });
    await db.collection("c").updateOne({ _id: 1 }, { $inc: { n: 1 } }, { upsert: true });
    assert.deepEqual(await db.collection("c").findOne({}), { _id: 1, n: 1 });
    await admin.command({ configureFailPoint: "failCommand", mode: "off" });
  });

  it("reads in a session", async () => {
    await client.withSession(async (session) => {
      const things = db.collection("things");
      await things.insertMany(Array.from({ length: 250 }, (_, n) => ({ _id: n })), { session });
      assert.equal((await things.find({}, { session, batchSize: 10 }).toArray()).length, 250);
    });
  });
});
