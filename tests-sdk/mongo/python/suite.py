"""Our suite for PyMongo, against a running server: plain and TLS, authentication, compression, commands, cursors, sessions, retries.

The server has the well-known key on loopback, so it asks nobody who he is, and has test commands. `users.py`, `budgets.py` and `doors.py` start servers of their own.
Prints one line for each test and the closing lines of the Test Anything Protocol. Names as arguments choose modules.
"""

import datetime
import os
import sys
import traceback
import unittest
import uuid

import arithmetic
import bson
import budgets
import capped
import doors
import large
import snippets
import users
from bson.codec_options import CodecOptions
from bson.binary import UuidRepresentation
from pymongo import ASCENDING, DESCENDING, DeleteOne, InsertOne, MongoClient, ReturnDocument, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError
from support import ACCOUNT, CA_FILE, KEY, URI, WithDatabase, client


class Connections(unittest.TestCase):
    def test_the_server_is_a_router_of_a_version_that_drivers_take(self):
        with client() as connected:
            hello = connected.admin.command("hello")
            self.assertEqual(hello["msg"], "isdbgrid")
            self.assertEqual((hello["minWireVersion"], hello["maxWireVersion"]), (0, 25))
            self.assertNotIn("topologyVersion", hello)
            self.assertEqual(connected.server_info()["versionArray"][0], 8)
            self.assertEqual(connected.admin.command("ping")["ok"], 1.0)

    @unittest.skipUnless(CA_FILE, "the server has a certificate from outside")
    def test_tls_shares_the_port(self):
        address = URI.replace("127.0.0.1", "localhost")
        with MongoClient(address, tls=True, tlsCAFile=CA_FILE, serverSelectionTimeoutMS=20000) as connected:
            self.assertEqual(connected.admin.command("ping")["ok"], 1.0)

    def test_keys_of_the_account_are_passwords(self):
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-1", "DEFAULT"]:
            with client(username=ACCOUNT, password=KEY, authMechanism=mechanism) as connected:
                status = connected.admin.command("connectionStatus")["authInfo"]
                self.assertEqual(status["authenticatedUsers"], [{"user": ACCOUNT, "db": "admin"}])
                self.assertEqual(status["authenticatedUserRoles"], [{"role": "root", "db": "admin"}])

    def test_a_wrong_password_and_an_unknown_user_fail_alike(self):
        messages = set()
        for user, password in [(ACCOUNT, KEY + "x"), ("nobody", KEY)]:
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-1"]:
                with client(username=user, password=password, authMechanism=mechanism) as connected:
                    with self.assertRaises(OperationFailure) as raised:
                        connected.admin.command("ping")
                    self.assertEqual(raised.exception.code, 18)
                    messages.add(raised.exception.details["errmsg"])
        self.assertEqual(messages, {"Authentication failed."})

    def test_every_compressor_carries_documents_there_and_back(self):
        for compressor in ["snappy", "zlib", "zstd"]:
            with client(compressors=compressor) as connected:
                db = connected["py_" + uuid.uuid4().hex[:12]]
                texts = ["shardlake " * 20000, "x", os.urandom(50000).hex()]
                db.c.insert_many([{"_id": place, "text": text} for place, text in enumerate(texts)])
                self.assertEqual([found["text"] for found in db.c.find(sort=[("_id", 1)])], texts, compressor)
                connected.drop_database(db.name)

    def test_what_is_not_there_is_refused_by_name(self):
        with client() as connected:
            for command in ["nosuch", "eval", "BuildInfo"]:
                with self.assertRaises(OperationFailure) as raised:
                    connected.admin.command(command)
                self.assertEqual((raised.exception.code, raised.exception.details["codeName"]), (59, "CommandNotFound"))
                self.assertIn(command, raised.exception.details["errmsg"])


class Documents(WithDatabase):
    def test_every_type_comes_back_as_it_was(self):
        document = {
            "_id": bson.ObjectId(),
            "double": 1.0,
            "text": "Ä€𝄞",
            "document": {"b": 1, "a": {"c": []}},
            "array": [1, "two", None],
            "binary": bson.Binary(b"\0\1\2", 128),
            "uuid": bson.Binary.from_uuid(uuid.uuid4()),
            "bool": True,
            "date": datetime.datetime(2026, 11, 23, 1, 2, 3, 4000),
            "null": None,
            "regex": bson.Regex("^a.*b$", "im"),
            "code": bson.Code("x = 1"),
            "int": 2**31 - 1,
            "timestamp": bson.Timestamp(5, 6),
            "long": bson.Int64(7),
            "decimal": bson.Decimal128("1.10"),
            "min": bson.MinKey(),
            "max": bson.MaxKey(),
        }
        options = CodecOptions(document_class=bson.SON, uuid_representation=UuidRepresentation.UNSPECIFIED)
        collection = self.db.get_collection("types", codec_options=options)
        collection.insert_one(document)
        found = collection.find_one({"_id": document["_id"]})
        self.assertEqual(bson.encode(found), bson.encode(document))

    def test_documents_are_written_read_changed_and_deleted(self):
        things = self.db.things
        self.assertEqual(len(things.insert_many({"_id": n, "n": n, "odd": n % 2 == 1} for n in range(20)).inserted_ids), 20)
        self.assertEqual(things.count_documents({}), 20)
        self.assertEqual(things.estimated_document_count(), 20)
        self.assertEqual([found["_id"] for found in things.find({"n": {"$gte": 17}}).sort("n", DESCENDING)], [19, 18, 17])
        changed = things.update_many({"odd": True}, {"$inc": {"n": 100}})
        self.assertEqual((changed.matched_count, changed.modified_count), (10, 10))
        self.assertEqual(things.replace_one({"_id": 0}, {"z": 1}).modified_count, 1)
        self.assertEqual(things.find_one({"_id": 0}), {"_id": 0, "z": 1})
        after = things.find_one_and_update({"_id": 2}, {"$set": {"n": -1}}, return_document=ReturnDocument.AFTER)
        self.assertEqual(after["n"], -1)
        upserted = things.update_one({"_id": 99}, {"$set": {"n": 9}}, upsert=True)
        self.assertEqual(upserted.upserted_id, 99)
        self.assertEqual(things.delete_many({"odd": True}).deleted_count, 10)
        self.assertEqual(sorted(things.distinct("n")), [-1, 4, 6, 8, 9, 10, 12, 14, 16, 18])
        sums = list(things.aggregate([{"$match": {"n": {"$gt": 0}}}, {"$group": {"_id": None, "sum": {"$sum": "$n"}}}]))
        self.assertEqual(sums, [{"_id": None, "sum": 97}])

    def test_bulk_writes_tell_of_each_statement(self):
        requests = [InsertOne({"_id": 1}), InsertOne({"_id": 1}), UpdateOne({"_id": 1}, {"$set": {"a": 1}}), DeleteOne({"_id": 5})]
        with self.assertRaises(BulkWriteError) as raised:
            self.db.c.bulk_write(requests, ordered=True)
        details = raised.exception.details
        self.assertEqual((details["nInserted"], details["nModified"]), (1, 0))
        self.assertEqual([(error["index"], error["code"]) for error in details["writeErrors"]], [(1, 11000)])
        with self.assertRaises(BulkWriteError) as raised:
            self.db.d.bulk_write(requests, ordered=False)
        self.assertEqual(raised.exception.details["nModified"], 1)

    def test_unique_indexes_are_kept_and_named(self):
        self.db.people.create_index([("mail", ASCENDING)], unique=True)
        self.db.people.insert_one({"mail": "a@b"})
        with self.assertRaises(DuplicateKeyError) as raised:
            self.db.people.insert_one({"mail": "a@b"})
        self.assertEqual(raised.exception.details["keyValue"], {"mail": "a@b"})
        self.assertEqual(set(self.db.people.index_information()), {"_id_", "mail_1"})

    def test_unacknowledged_writes_arrive(self):
        unacknowledged = self.db.get_collection("c", write_concern=WriteConcern(w=0))
        self.assertFalse(unacknowledged.insert_one({"_id": 1}).acknowledged)
        # On the same connection: commands of one connection are carried out in order.
        self.assertEqual(self.db.c.find_one({"_id": 1}), {"_id": 1})

    def test_collections_and_databases_are_listed(self):
        self.db.create_collection("made")
        self.assertEqual(self.db.list_collection_names(), ["made"])
        self.assertIn(self.db.name, self.client.list_database_names())
        self.db.drop_collection("made")
        self.assertEqual(self.db.list_collection_names(), [])


class Cursors(WithDatabase):
    def setUp(self):
        super().setUp()
        self.db.c.insert_many({"_id": n} for n in range(1000))

    def test_batches_give_every_document_once(self):
        for size in [0, 1, 7, 101, 999, 1000, 5000]:
            with self.subTest(size=size):
                found = [item["_id"] for item in self.db.c.find(batch_size=size, sort=[("_id", 1)])]
                self.assertEqual(found, list(range(1000)))

    def test_a_cursor_belongs_to_its_session_and_collection(self):
        with self.client.start_session() as session:
            reply = self.db.command("find", "c", batchSize=2, session=session)
            number = bson.Int64(reply["cursor"]["id"])
            for collection, other, code in [("c", None, 50738), ("d", session, 13)]:
                with self.assertRaises(OperationFailure) as raised:
                    self.db.command("getMore", number, collection=collection, session=other)
                self.assertEqual(raised.exception.code, code)
            more = self.db.command("getMore", number, collection="c", batchSize=3, session=session)
            self.assertEqual(len(more["cursor"]["nextBatch"]), 3)
            killed = self.db.command("killCursors", "c", cursors=[number], session=session)
            self.assertEqual(killed["cursorsKilled"], [number])
            with self.assertRaises(OperationFailure) as raised:
                self.db.command("getMore", number, collection="c", session=session)
            self.assertEqual(raised.exception.code, 43)

    def test_the_end_of_a_session_ends_its_cursors(self):
        session = self.client.start_session()
        reply = self.db.command("find", "c", batchSize=2, session=session)
        self.client.admin.command("killSessions", [session.session_id])
        with self.assertRaises(OperationFailure) as raised:
            self.db.command("getMore", bson.Int64(reply["cursor"]["id"]), collection="c", session=session)
        self.assertEqual(raised.exception.code, 43)
        session.end_session()


class Retries(WithDatabase):
    def tearDown(self):
        self.client.admin.command("configureFailPoint", "failCommand", mode="off")
        super().tearDown()

    def fail(self, **data):
        self.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)

    def test_a_repeated_write_is_done_once(self):
        lsid = {"id": bson.Binary.from_uuid(uuid.uuid4())}
        # Not as a driver's own, which would number it anew.
        write = bson.SON(update="c", updates=[{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}], lsid=lsid, txnNumber=bson.Int64(5))
        raw = self.client.get_database(self.db.name, codec_options=CodecOptions())
        with client(retryWrites=False) as other:
            replies = [other[self.db.name].command(dict(write)) for _ in range(2)]
            self.assertEqual([reply["n"] for reply in replies], [1, 1])
            self.assertEqual([reply["upserted"] for reply in replies], [[{"index": 0, "_id": 1}]] * 2)
            self.assertEqual(raw.c.find_one({"_id": 1})["n"], 1)
            write["txnNumber"] = bson.Int64(4)
            with self.assertRaises(OperationFailure) as raised:
                other[self.db.name].command(dict(write))
            self.assertEqual(raised.exception.code, 225)

    def test_a_write_whose_answer_is_lost_is_repeated_by_the_driver(self):
        self.fail(failCommands=["insert"], closeConnection=True)
        self.db.c.insert_one({"_id": 1})
        self.assertEqual(self.db.c.count_documents({}), 1)

    def test_a_retryable_error_carries_its_label_and_is_repeated(self):
        self.fail(failCommands=["insert"], errorCode=91)
        self.db.c.insert_one({"_id": 1})
        with client(retryWrites=False) as plain:
            self.fail(failCommands=["insert"], errorCode=91)
            with self.assertRaises(PyMongoError) as raised:
                plain[self.db.name].c.insert_one({"_id": 2})
            self.assertFalse(raised.exception.has_error_label("RetryableWriteError"))

    def test_reads_are_repeated(self):
        self.db.c.insert_one({"_id": 1})
        self.fail(failCommands=["find"], closeConnection=True)
        self.assertEqual(self.db.c.find_one(), {"_id": 1})


class ChangeStreams(WithDatabase):
    def test_a_stream_tells_changes_and_goes_on_after_an_error(self):
        self.db.c.insert_one({"_id": 0})
        with self.db.c.watch(max_await_time_ms=2000) as stream:
            self.db.c.insert_one({"_id": 1, "n": 1})
            self.assertEqual(stream.next()["fullDocument"], {"_id": 1, "n": 1})
            point = {"configureFailPoint": "failCommand", "mode": {"times": 1}}
            self.client.admin.command({**point, "data": {"failCommands": ["getMore"], "errorCode": 91}})
            self.db.c.update_one({"_id": 1}, {"$set": {"n": 2}})
            event = stream.next()
            self.assertEqual(event["updateDescription"]["updatedFields"], {"n": 2})
            token = event["_id"]
            self.db.c.delete_one({"_id": 1})
            self.assertEqual(stream.next()["operationType"], "delete")
        with self.db.c.watch(resume_after=token) as again:
            self.assertEqual(again.next()["operationType"], "delete")
            self.assertIsNone(again.try_next())

    def test_a_stream_on_a_database_sees_what_comes_later(self):
        with self.db.watch(max_await_time_ms=2000) as stream:
            self.db.later.insert_one({"_id": 1})
            event = stream.next()
            self.assertEqual((event["operationType"], event["ns"]["coll"]), ("insert", "later"))

    def test_a_dropped_collection_ends_its_stream(self):
        self.db.c.insert_one({"_id": 1})
        with self.db.c.watch(max_await_time_ms=2000) as stream:
            self.db.c.drop()
            self.assertEqual([event["operationType"] for event in stream], ["drop", "invalidate"])


class Tap(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        print(f"ok - {test.id()}", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"ok - {test.id()} # SKIP {reason}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(subtest, err)

    def tell(self, test, err):
        print(f"not ok - {test.id()}", flush=True)
        traceback.print_exception(*err, file=sys.stdout)


def main():
    modules = [module for module in (sys.modules[__name__], large, arithmetic, capped, snippets, users, budgets, doors) if module.__name__ in sys.argv[1:] or not sys.argv[1:]]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromModule, modules))
    with open(os.devnull, "w") as nowhere:
        result = unittest.TextTestRunner(stream=nowhere, resultclass=Tap).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"# pass {result.passed}\n# fail {failed}\n# skipped {len(result.skipped)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
