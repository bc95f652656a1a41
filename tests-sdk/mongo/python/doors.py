"""One item, two doors: what a client of the REST interface reads and writes again keeps its kinds for MongoDB's drivers."""

import base64
import datetime
import hashlib
import hmac
import json
import unittest
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

    def send(self, method, path, link, body=None, **headers):
        date = formatdate(usegmt=True)
        text = f"{method.lower()}\ndocs\n{link}\n{date.lower()}\n\n"
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
