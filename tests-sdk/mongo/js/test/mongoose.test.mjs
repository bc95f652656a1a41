// What applications do with Mongoose, against a running server.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import mongoose from "mongoose";

const uri = process.env.SHARDLAKE_MONGO;
const { Schema } = mongoose;

describe("mongoose", () => {
  let connection, Author, Book;

  before(async () => {
    const dbName = `ms_${randomUUID().slice(0, 8)}`;
    connection = await mongoose.createConnection(uri, { dbName, serverSelectionTimeoutMS: 20000 }).asPromise();
    const author = new Schema(
      { name: { type: String, required: true, trim: true }, email: { type: String, unique: true }, born: Date },
      { timestamps: true },
    );
    author.virtual("books", { ref: "Book", localField: "_id", foreignField: "author" });
    const book = new Schema({
      title: { type: String, required: true, maxlength: 40 },
      author: { type: Schema.Types.ObjectId, ref: "Author", index: true },
      pages: { type: Number, min: 1 },
      tags: [String],
      reviews: [{ by: String, stars: Number }],
      meta: { type: Map, of: String },
    });
    Author = connection.model("Author", author);
    Book = connection.model("Book", book);
    await Promise.all([Author.init(), Book.init()]);
  });

  after(async () => {
    await connection.dropDatabase();
    await connection.close();
  });

  it("checks documents before it sends them, and the server the unique ones", async () => {
    await assert.rejects(Author.create({ email: "nobody@x" }), { name: "ValidationError" });
    await Author.create({ name: " Ada ", email: "ada@x" });
    const ada = await Author.findOne({ email: "ada@x" });
    assert.equal(ada.name, "Ada");
    assert.ok(ada.createdAt instanceof Date);
    await assert.rejects(Author.create({ name: "Other", email: "ada@x" }), { code: 11000 });
  });

  it("populates references both ways", async () => {
    const author = await Author.create({ name: "Ursula", email: "ursula@x" });
    await Book.create([
      { title: "One", author, pages: 100, tags: ["a", "b"] },
      { title: "Two", author, pages: 200, tags: ["b"] },
    ]);
    const books = await Book.find({ tags: "b" }).sort({ pages: -1 }).populate("author");
    assert.deepEqual(books.map((book) => [book.title, book.author.name]), [["Two", "Ursula"], ["One", "Ursula"]]);
    const found = await Author.findById(author.id).populate({ path: "books", options: { sort: { pages: 1 } } });
    assert.deepEqual(found.books.map((book) => book.title), ["One", "Two"]);
  });

  it("saves what changed in a document, and notices that another one was faster", async () => {
    const book = await Book.create({ title: "Three", pages: 3, reviews: [{ by: "x", stars: 1 }], meta: { a: "1" } });
    book.reviews.push({ by: "y", stars: 5 });
    book.meta.set("b", "2");
    await book.save();
    const [one, other] = await Promise.all([Book.findById(book.id), Book.findById(book.id)]);
    one.reviews = [];
    await one.save();
    other.reviews[1].stars = 4;
    await assert.rejects(other.save(), { name: "VersionError" });
    const stored = await Book.findById(book.id).lean();
    assert.deepEqual([stored.reviews, stored.meta], [[], { a: "1", b: "2" }]);
  });

  it("updates, counts, aggregates and walks cursors", async () => {
    await Book.insertMany(Array.from({ length: 30 }, (_, n) => ({ title: `N${n}`, pages: n + 1, tags: ["n"] })));
    const updated = await Book.updateMany({ tags: "n", pages: { $gt: 20 } }, { $inc: { pages: 100 }, $push: { tags: "long" } });
    assert.equal(updated.modifiedCount, 10);
    assert.equal(await Book.countDocuments({ tags: "long" }), 10);
    const [sum] = await Book.aggregate([
      { $match: { tags: "n" } },
      { $group: { _id: { $in: ["long", "$tags"] }, pages: { $sum: "$pages" } } },
      { $sort: { _id: -1 } },
    ]);
    assert.equal(sum.pages, 10 * 100 + (21 + 30) * 5);
    let walked = 0;
    for await (const _ of Book.find({ tags: "n" }).cursor({ batchSize: 7 })) walked += 1;
    assert.equal(walked, 30);
    const changed = await Book.findOneAndUpdate({ title: "new" }, { pages: 5 }, { upsert: true, returnDocument: "after" });
    assert.equal(changed.pages, 5);
    assert.equal((await Book.deleteMany({ tags: "n" })).deletedCount, 30);
  });

  it("hears of changes as they happen", async () => {
    const stream = Book.watch([], { fullDocument: "updateLookup" });
    const heard = [];
    const done = new Promise((resolve, reject) => {
      stream.on("error", reject);
      stream.on("change", (change) => {
        heard.push(change);
        if (change.operationType === "delete") resolve();
      });
    });
    await new Promise((resolve) => stream.once("ready", resolve));
    // The driver opens the stream on the server in its own time.
    while (!stream.driverChangeStream?.cursor?.id) await new Promise((resolve) => setImmediate(resolve));
    const book = await Book.create({ title: "Heard", pages: 1 });
    await Book.updateOne({ _id: book._id }, { $set: { pages: 2 } });
    await Book.deleteOne({ _id: book._id });
    await done;
    await stream.close();
    assert.deepEqual(heard.map((change) => change.operationType), ["insert", "update", "delete"]);
    assert.deepEqual(heard[1].updateDescription.updatedFields, { pages: 2 });
    assert.ok(heard.every((change) => change.documentKey._id.equals(book._id)));
  });
});
