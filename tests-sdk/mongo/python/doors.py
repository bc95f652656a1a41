"""One item, two doors: what a client of the REST interface reads and writes again keeps its kinds for MongoDB's drivers."""

import base64
import datetime
import hashlib
import hmac
import json
import time
import unittest
import urllib.error
import urllib.request
from email.utils import formatdate
from urllib.parse import quote

import bson
from support import OwnServer

KEY_OF_ALL = {"x-ms-documentdb-partitionkey": "[]"}


class Rest:
    """As little of a client of the REST interface as these tests need."""

    def __init__(self, endpoint, key):
        self.endpoint, self.key = endpoint.rstrip("/"), base64.b64decode(key)

    def send(self, method, path, link, body=None, kind="docs", **headers):
        date = formatdate(usegmt=True)
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.new(self.key, text.encode(), hashlib.sha256).digest()).decode()
        token = quote(f"type=master&ver=1.0&sig={signature}", safe="")
        headers = {"authorization": token, "x-ms-date": date, "x-ms-version": "2020-07-15", **KEY_OF_ALL, **headers}
        request = urllib.request.Request(self.endpoint + path, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())


class TwoDoors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = OwnServer()
        cls.client = cls.server.owner()
        cls.rest = Rest(cls.server.endpoint, OwnServer.KEY)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def document(self, name):
        return {
            "_id": name,
            "when": datetime.datetime(2026, 11, 25, 1, 2, 3, 4000),
            "ref": bson.ObjectId("507f1f77bcf86cd799439011"),
            "price": bson.Decimal128("1.10"),
            "bytes": b"\x00\x01",
            "list": [bson.Timestamp(1, 2), {"inner": bson.Regex("a", "i")}],
            "n": 1,
        }

    def test_an_item_that_is_read_and_written_again_keeps_its_kinds(self):
        things, link = self.client.doors.things, "dbs/doors/colls/things"
        things.insert_one(self.document("a"))
        item = self.rest.send("GET", f"/{link}/docs/a", f"{link}/docs/a")
        self.assertEqual(item["when"], {"$date": "2026-11-25T01:02:03.004Z"})
        item["n"] = 2
        self.rest.send("PUT", f"/{link}/docs/a", f"{link}/docs/a", json.dumps(item).encode())
        self.assertEqual(things.find_one({"_id": "a"}), {**self.document("a"), "n": 2})
        item["id"] = "b"
        upsert = {"x-ms-documentdb-is-upsert": "true"}
        self.rest.send("POST", f"/{link}/docs", link, json.dumps(item).encode(), **upsert)
        self.assertEqual(things.find_one({"_id": "b"}), {**self.document("b"), "n": 2})
        self.assertEqual(things.count_documents({"when": {"$type": "date"}, "ref": {"$type": "objectId"}}), 2)

    def test_patches_and_batches_write_kinds_as_well(self):
        things, link = self.client.doors.patched, "dbs/doors/colls/patched"
        things.insert_one(self.document("a"))
        later = {"$date": "2027-01-01T00:00:00Z"}
        operations = {"operations": [{"op": "set", "path": "/when", "value": later}, {"op": "add", "path": "/list/-", "value": later}]}
        self.rest.send("PATCH", f"/{link}/docs/a", f"{link}/docs/a", json.dumps(operations).encode())
        found = things.find_one({"_id": "a"})
        self.assertEqual((found["when"], found["list"][2]), (datetime.datetime(2027, 1, 1),) * 2)
        self.assertEqual(found["price"], bson.Decimal128("1.10"))
        batch = [{"operationType": "Create", "resourceBody": {"id": "c", "when": later}}]
        headers = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
        self.rest.send("POST", f"/{link}/docs", link, json.dumps(batch).encode(), **headers)
        self.assertEqual(things.find_one({"_id": "c"}), {"_id": "c", "when": datetime.datetime(2027, 1, 1)})

    def test_a_collection_gets_an_analytical_store_and_keeps_its_options(self):
        collection, link = self.client.doors.analytical, "dbs/doors/colls/analytical"
        options = {"collation": {"locale": "en", "strength": 2}, "validator": {"n": {"$type": "int"}}}
        self.client.doors.create_collection("analytical", **options)
        collection.create_index("price", unique=True, sparse=True)
        collection.insert_many([{**self.document(f"d{n}"), "price": n} for n in range(20)])
        before = list(self.client.doors.list_collections(filter={"name": "analytical"})), list(collection.list_indexes())
        definition = self.rest.send("GET", f"/{link}", link, kind="colls")
        definition["analyticalStorageTtl"] = -1
        try:
            self.rest.send("PUT", f"/{link}", link, json.dumps(definition).encode(), kind="colls")
        except urllib.error.HTTPError as refused:
            if refused.code != 501:
                raise
            self.skipTest("the server is built without the feature 'analytics'")
        after = list(self.client.doors.list_collections(filter={"name": "analytical"})), list(collection.list_indexes())
        self.assertEqual(after, before)
        collection.insert_one(self.document("later"))
        report = self.followed(link)
        self.assertEqual((report["figures"]["rows"], report["settings"]["schema"]), (21, "fullFidelity"))
        columns = {column["name"]: column["type"] for column in report["figures"]["columns"]}
        self.assertEqual((columns["when"], columns["ref"]), ("struct<timestamp timestamp>", "struct<objectId string>"))
        # 0 to 19, and a decimal.
        self.assertIn("int32 integer", columns["price"])
        self.assertIn("decimal128 string", columns["price"])

    def followed(self, link):
        """The report of a table that has every change. The end turns a hang into a failure."""
        end = time.monotonic() + 500
        path = f"_shardlake/v1/{link}/analytics"
        while True:
            report = self.rest.send("GET", f"/{path}", path, kind="shardlake")
            if report["state"] == "following" and report["lag"]["changes"] == 0:
                return report
            self.assertTrue(report["state"] != "failed" and time.monotonic() < end, report)
            time.sleep(0.05)
