// A session in MongoDB's shell, as people type it, against a running server. Each step is a line and what it has to print.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

const uri = process.env.SHARDLAKE_MONGO;
const database = `sh_${randomUUID().slice(0, 8)}`;

const steps = [
  [`db.getName()`, database],
  [`db.version().startsWith("8.")`, true],
  [`db.hello().msg`, "isdbgrid"],
  [`db.runCommand({ ping: 1 }).ok`, 1],
  [`db.createCollection("people").ok`, 1],
  [`db.people.insertOne({ _id: 1, name: "Ada", age: 36, tags: ["math"] }).insertedId`, 1],
  [`db.people.insertMany([{ _id: 2, name: "Alan", age: 41 }, { _id: 3, name: "Grace", age: 85 }, { _id: 4, name: "Edsger", age: 72 }]).acknowledged`, true],
  [`db.people.countDocuments()`, 4],
  [`db.people.estimatedDocumentCount()`, 4],
  [`db.people.findOne({ name: "Ada" }).age`, 36],
  [`db.people.find({ age: { $gt: 40 } }).sort({ age: 1 }).toArray().map(p => p.name)`, ["Alan", "Edsger", "Grace"]],
  [`db.people.find({}, { name: 1, _id: 0 }).sort({ name: -1 }).limit(2).toArray()`, [{ name: "Grace" }, { name: "Edsger" }]],
  [`db.people.find().sort({ _id: 1 }).skip(3).next().name`, "Edsger"],
  [`db.people.find({ name: /^A/ }).count()`, 2],
  [`db.people.distinct("name", { age: { $lt: 50 } }).sort()`, ["Ada", "Alan"]],
  [`db.people.updateOne({ _id: 1 }, { $set: { age: 37 }, $push: { tags: "engines" } }).modifiedCount`, 1],
  [`db.people.updateMany({}, { $inc: { age: 1 } }).modifiedCount`, 4],
  [`db.people.updateOne({ _id: 9 }, { $setOnInsert: { name: "New" } }, { upsert: true }).insertedId`, 9],
  [`db.people.replaceOne({ _id: 9 }, { name: "Newer" }).modifiedCount`, 1],
  [`db.people.findOneAndUpdate({ _id: 9 }, { $set: { x: 1 } }, { returnDocument: "after" }).x`, 1],
  [`db.people.findOneAndReplace({ _id: 9 }, { y: 2 }).x`, 1],
  [`db.people.findOneAndDelete({ _id: 9 }).y`, 2],
  [`db.people.find({ _id: 9 }).hasNext()`, false],
  [`db.people.createIndex({ name: 1 })`, "name_1"],
  [`db.people.createIndex({ name: 1, age: 1 }, { unique: true })`, "name_1_age_1"],
  [`db.people.getIndexes().map(i => i.name)`, ["_id_", "name_1", "name_1_age_1"]],
  [`db.people.find({ name: "Ada" }).hint("name_1").itcount()`, 1],
  [`db.people.find({ name: "Ada" }).explain().queryPlanner.namespace`, `${database}.people`],
  [`db.people.dropIndex("name_1").ok`, 1],
  [`db.people.aggregate([{ $match: { age: { $gt: 40 } } }, { $group: { _id: null, n: { $sum: 1 }, mean: { $avg: "$age" } } }]).toArray()[0].n`, 3],
  [`db.people.aggregate([{ $unwind: "$tags" }, { $sortByCount: "$tags" }, { $sort: { _id: 1 } }]).toArray().map(t => t._id)`, ["engines", "math"]],
  [`db.orders.insertMany([{ who: 1, total: NumberDecimal("9.90") }, { who: 1, total: NumberDecimal("0.10") }]).acknowledged`, true],
  [`db.people.aggregate([{ $lookup: { from: "orders", localField: "_id", foreignField: "who", as: "orders" } }, { $match: { orders: { $ne: [] } } }]).toArray()[0].orders.length`, 2],
  [`db.orders.aggregate([{ $group: { _id: "$who", sum: { $sum: "$total" } } }]).toArray()[0].sum.toString()`, "10.00"],
  [`db.createView("adults", "people", [{ $match: { age: { $gte: 18 } } }]).ok`, 1],
  [`db.adults.countDocuments()`, 4],
  [`db.people.bulkWrite([{ insertOne: { document: { _id: 20 } } }, { updateOne: { filter: { _id: 20 }, update: { $set: { z: 1 } } } }, { deleteOne: { filter: { _id: 20 } } }]).deletedCount`, 1],
  [`code(() => db.people.insertOne({ _id: 1 }))`, 11000],
  [`code(() => db.people.find({ $nonsense: 1 }).toArray())`, 2],
  [`db.types.insertOne({ _id: 1, i: NumberInt(1), l: NumberLong("9007199254740993"), d: 1.5, when: ISODate("2026-11-23T00:00:00Z"), oid: ObjectId("0123456789abcdef01234567"), u: UUID("01234567-89ab-cdef-0123-456789abcdef"), r: /x/i, b: BinData(0, "aGk=") }).acknowledged`, true],
  [`db.types.findOne().l.toString()`, "9007199254740993"],
  [`db.types.findOne().when.toISOString()`, "2026-11-23T00:00:00.000Z"],
  [`db.types.findOne().oid.toHexString()`, "0123456789abcdef01234567"],
  [`db.types.find({ l: { $type: "long" } }).count()`, 1],
  [`db.getCollectionNames().sort()`, ["adults", "orders", "people", "system.views", "types"]],
  [`db.getCollectionInfos({ name: "adults" })[0].type`, "view"],
  [`db.adminCommand({ listDatabases: 1, nameOnly: true }).databases.some(d => d.name === db.getName())`, true],
  [`db.people.stats().count`, 4],
  [`db.stats().db`, database],
  [`db.people.renameCollection("persons").ok`, 1],
  [`db.persons.countDocuments()`, 4],
  [`db.runCommand({ collMod: "persons", validator: { name: { $type: "string" } } }).ok`, 1],
  [`code(() => db.persons.insertOne({ name: 1 }))`, 121],
  [`heard("persons", () => db.persons.updateOne({ _id: 1 }, { $set: { seen: true } })).updateDescription.updatedFields`, { seen: true }],
  [`db.getMongo().startSession().getDatabase(db.getName()).persons.countDocuments()`, 4],
  [`db.getSiblingDB("admin").runCommand({ connectionStatus: 1 }).ok`, 1],
  [`db.serverStatus().process`, "mongos"],
  [`db.currentOp().ok`, 1],
  [`db.persons.deleteMany({ age: { $gt: 70 } }).deletedCount`, 2],
  [`db.persons.drop()`, true],
  [`sh.shardCollection(db.getName() + ".events", { tenant: "hashed" }).ok`, 1],
  [`db.events.insertMany([{ tenant: 1 }, { tenant: 2 }, { tenant: 2 }]).acknowledged`, true],
  [`Object.keys(db.events.getShardDistribution().value).length`, 2],
  [`sh.status().value.databases.some(d => d.database._id === db.getName() && Object.keys(d.collections).length === 1)`, true],
  [`sh.status().value.shards.length`, 1],
  [`sh.getBalancerState()`, true],
  [`db.events.analyzeShardKey({ tenant: 1 }).keyCharacteristics.numDistinctValues.toString()`, "2"],
  [`sh.getShardedDataDistribution().toArray().some(e => e.ns === db.getName() + ".events")`, true],
  [`db.dropDatabase().ok`, 1],
];

/** The shell's program, where the package is there. */
function shell() {
  const require = createRequire(import.meta.url);
  const place = require.resolve("mongosh/package.json");
  const { bin } = require("mongosh/package.json");
  return join(dirname(place), typeof bin === "string" ? bin : bin.mongosh);
}

// What a session has at hand besides the shell's own.
const helpers = `
const code = (f) => { try { f(); return 0; } catch (e) { return e.code; } };
const heard = (name, f) => {
  const stream = db.getCollection(name).watch();
  f();
  let event = null;
  for (let n = 0; n < 50 && !event; n++) event = stream.tryNext();
  stream.close();
  return event;
};
`;

/** Not through eval: the shell waits for what a line answers only where it reads the line itself. */
function script() {
  const lines = steps.map(([line], place) => {
    const told = (what) => `print("@${place} " + JSON.stringify(${what}))`;
    return `try { const v = ${line}; ${told("v")}; } catch (e) { ${told('"threw " + e.message')}; }`;
  });
  return helpers + lines.join("\n");
}

function run(file, home) {
  const address = new URL(uri);
  address.pathname = `/${database}`;
  const environment = { ...process.env, HOME: home, MONGOSH_FORCE_DISABLE_TELEMETRY_FOR_TESTING: "1" };
  const child = spawn(process.execPath, [shell(), address.href, "--quiet", "--norc", "--file", file], { env: environment });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}

describe("mongosh", () => {
  it(`answers ${steps.length} lines as people type them`, async () => {
    const home = await mkdtemp(join(tmpdir(), "shardlake-mongosh-"));
    try {
      const file = join(home, "session.js");
      await writeFile(file, script());
      const { code, output } = await run(file, home);
      const told = new Map();
      for (const line of output.split("\n")) {
        const found = /^@(\d+) (.*)$/.exec(line.trim());
        if (found) told.set(Number(found[1]), found[2]);
      }
      for (const [place, [line, wanted]] of steps.entries()) {
        assert.ok(told.has(place), `nothing for: ${line}\n${output.slice(-2000)}`);
        const given = told.get(place);
        assert.deepEqual(given === "undefined" ? undefined : JSON.parse(given), wanted, line);
      }
      assert.equal(code, 0);
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });
});
