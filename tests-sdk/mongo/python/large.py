"""Documents of ten megabytes: written, read, changed."""

import os

import bson
from bson.code import Code
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import DocumentTooLarge, OperationFailure
from support import CA_FILE, SELECTION, URI, WithDatabase, client

MEGABYTE = 1 << 20
OBJECT_TOO_LARGE = 10334
OVERFLOW = 15


def large():
    """Ten megabytes as applications have them: a file, a text, and a long list."""
    return {
        "_id": 1,
        "file": os.urandom(4 * MEGABYTE),
        "text": "Ä shard in a lake. " * (4 * MEGABYTE // 20),
        "list": [{"n": n, "half": n / 2, "name": f"entry {n}"} for n in range(40000)],
        "version": 1,
    }


def nested(levels, level=lambda value: {"a": value}):
    value = 1
    for _ in range(levels):
        value = level(value)
    return value


class LargeDocuments(WithDatabase):
    def test_a_large_document_is_written_read_and_changed(self):
        document = large()
        self.assertGreater(len(bson.encode(document)), 10 * 1000 * 1000)
        things = self.db.things
        things.insert_one(document)
        self.assertEqual(bson.encode(things.find_one({"_id": 1})), bson.encode(document))
        self.assertEqual(things.find_one({"list.n": 39999}, {"version": 1}), {"_id": 1, "version": 1})
        changed = things.update_one({"_id": 1}, {"$inc": {"version": 1}, "$set": {"list.7.name": "seven", "more": [7]}, "$push": {"late": {"n": -1}}})
        self.assertEqual(changed.modified_count, 1)
        document["version"] = 2
        document["list"][7]["name"] = "seven"
        document.update(late=[{"n": -1}], more=[7])
        self.assertEqual(bson.encode(things.find_one({"_id": 1})), bson.encode(document))
        before = things.find_one_and_update({"_id": 1}, [{"$set": {"version": {"$size": "$list"}}}])
        self.assertEqual(bson.encode(before), bson.encode(document))
        self.assertEqual(things.find_one({"_id": 1}, {"version": 1})["version"], 40000)
        other = {**large(), "version": 3}
        self.assertEqual(things.replace_one({"_id": 1}, other).modified_count, 1)
        self.assertEqual(bson.encode(things.find_one({"version": 3})), bson.encode(other))
        (size,) = things.aggregate([{"$project": {"size": {"$bsonSize": "$$ROOT"}}}])
        self.assertEqual(size["size"], len(bson.encode(other)))
        self.assertEqual(things.delete_one({"_id": 1}).deleted_count, 1)
        self.assertEqual(things.count_documents({}), 0)

    def test_large_documents_come_compressed_and_over_tls(self):
        document = RawBSONDocument(bson.encode(large()))
        connections = {"snappy": lambda: client(compressors="snappy"), "zlib": lambda: client(compressors="zlib")}
        if CA_FILE:
            address = URI.replace("127.0.0.1", "localhost")
            connections["tls"] = lambda: MongoClient(address, tls=True, tlsCAFile=CA_FILE, **SELECTION)
        for name, connect in connections.items():
            with self.subTest(name), connect() as other:
                things = other[self.db.name].get_collection("things_" + name)
                things.insert_one(document)
                self.assertEqual(bson.encode(things.find_one({"_id": 1})), document.raw)

    def test_several_large_documents_are_read_by_one_cursor(self):
        text = "x" * (9 * MEGABYTE)
        for n in range(4):
            self.db.c.insert_one({"_id": n, "text": text})
        # Each batch holds at most 16 MB, so that every document is one of its own.
        found = [(one["_id"], one["text"] == text) for one in self.db.c.find(sort=[("_id", 1)])]
        self.assertEqual(found, [(n, True) for n in range(4)])

    def test_what_grows_beyond_the_limit_is_refused_and_stays_as_it_was(self):
        self.db.c.insert_one({"_id": 1, "a": "x" * (10 * MEGABYTE)})
        with self.assertRaises(OperationFailure) as raised:
            self.db.c.update_one({"_id": 1}, {"$set": {"b": "x" * (7 * MEGABYTE)}})
        self.assertEqual(raised.exception.code, OBJECT_TOO_LARGE, raised.exception)
        with self.assertRaises(DocumentTooLarge):
            self.db.c.insert_one({"_id": 2, "a": "x" * (17 * MEGABYTE)})
        self.assertEqual(self.db.c.find_one({}, {"a": 0}), {"_id": 1})
        self.assertEqual(len(self.db.c.find_one()["a"]), 10 * MEGABYTE)

    def test_documents_that_are_too_deep_are_refused_and_stay_as_they_were(self):
        things = self.db.things
        things.insert_one({"_id": 1, "a": nested(200)})
        self.assertEqual(things.find_one(), {"_id": 1, "a": nested(200)})
        inner = ".".join(["a"] * 200)
        for refused in [
            lambda: things.insert_one({"_id": 2, "a": nested(201)}),
            lambda: things.update_one({"_id": 1}, {"$set": {inner: nested(30)}}),
            lambda: things.update_one({"_id": 1}, [{"$set": {"a": {"b": "$a"}}}]),
            lambda: things.insert_one({"_id": 3, "a": nested(150, lambda value: Code("x", {"a": value}))}),
        ]:
            with self.assertRaises(OperationFailure) as raised:
                refused()
            self.assertEqual(raised.exception.code, OVERFLOW, raised.exception)
            self.assertIn("nest", str(raised.exception))
        self.assertEqual(list(things.find()), [{"_id": 1, "a": nested(200)}])
