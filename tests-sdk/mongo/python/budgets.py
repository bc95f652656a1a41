"""Collections with less throughput than their clients ask for: what is refused, what drivers do then, and what applications do."""

import re
import threading
import time
import unittest

from pymongo import monitoring
from pymongo.errors import BulkWriteError, OperationFailure, WriteError
from support import OwnServer, database_name

TOO_MANY_REQUESTS = 16500
WAIT = re.compile(r"RetryAfterMs=(\d+)")
# Turns a hang into a failure.
ATTEMPTS_MAX = 10000
LARGE = "x" * 1_000_000
MIDDLING = "x" * 50_000


def setUpModule():
    global server
    server = OwnServer()


def tearDownModule():
    server.stop()


class Sent(monitoring.CommandListener):
    """The commands that a driver sends."""

    def __init__(self):
        self.commands = []

    def started(self, event):
        self.commands.append((event.command_name, dict(event.command)))

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass

    def of(self, name):
        return [command for sent, command in self.commands if sent == name]


def wait_of(words):
    return int(WAIT.search(words)[1])


class Repeated:
    """What applications do for Cosmos DB: they wait as they are told and send the operation again."""

    def __init__(self):
        self.refusals = 0

    def __call__(self, operation):
        for _ in range(ATTEMPTS_MAX):
            try:
                return operation()
            except OperationFailure as error:
                if error.code != TOO_MANY_REQUESTS:
                    raise
                self.refusals += 1
                time.sleep(wait_of(error.details["errmsg"]) / 1000)
        raise AssertionError("it was refused again and again")


class Budgets(unittest.TestCase):
    def setUp(self):
        self.client = server.owner()
        self.db = self.client[database_name()]
        self.make()
        self.assertEqual(self.db.command({"customAction": "GetCollection", "collection": "c"})["provisionedThroughput"], 400)

    def tearDown(self):
        self.client.drop_database(self.db.name)
        self.client.close()

    def make(self):
        self.db.command({"customAction": "CreateCollection", "collection": "c", "offerThroughput": 400})

    def until_refused(self, scenario):
        """However slow the machine: a scenario, which says how often it was refused, is played anew until it was."""
        for _ in range(ATTEMPTS_MAX):
            self.overload(MIDDLING)
            if scenario() > 0:
                return
            self.db.c.drop()
            self.make()
        raise AssertionError("nothing was refused")

    def overload(self, pad):
        """Spends the budget of some seconds: until a write is refused, which it answers."""
        for _ in range(ATTEMPTS_MAX):
            try:
                self.db.c.insert_one({"pad": pad})
            except WriteError as error:
                return error
        raise AssertionError("nothing was refused")

    def refused(self, operation):
        """However slow the machine: it is asked again until its budget is spent when it asks."""
        for _ in range(ATTEMPTS_MAX):
            self.overload(LARGE)
            try:
                operation()
            except OperationFailure as error:
                return error
        raise AssertionError("nothing was refused")

    def test_what_is_refused_says_how_long_to_wait(self):
        operations = {
            "insert": lambda: self.db.c.insert_one({"_id": 1}),
            "update": lambda: self.db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True),
            "delete": lambda: self.db.c.delete_one({"_id": 1}),
            "findAndModify": lambda: self.db.c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, upsert=True),
            "find": lambda: self.db.c.find_one({"_id": 1}),
            "aggregate": lambda: list(self.db.c.aggregate([{"$match": {"_id": 1}}])),
        }
        for name, operation in operations.items():
            with self.subTest(name):
                error = self.refused(operation)
                self.assertEqual(error.code, TOO_MANY_REQUESTS, error)
                self.assertIs(type(error), WriteError if name in ("insert", "update", "delete") else OperationFailure)
                words = error.details["errmsg"]
                self.assertTrue(words.startswith("Error=16500, RetryAfterMs="), words)
                self.assertGreater(wait_of(words), 0)
                self.assertEqual(error.details["retryAfterMs"], wait_of(words))

    def test_drivers_do_not_repeat_what_is_refused_for_its_throughput(self):
        for retries in (True, False):
            with self.subTest(retries=retries):
                sent = Sent()
                options = {"retryWrites": retries, "retryReads": retries, "event_listeners": [sent]}
                with server.owner(**options) as other:
                    collection = other[self.db.name].c
                    written = self.refused(lambda: (sent.commands.clear(), collection.insert_one({"_id": 1})))
                    self.assertEqual(written.code, TOO_MANY_REQUESTS)
                    self.assertFalse(written.has_error_label("RetryableWriteError"))
                    (insert,) = sent.of("insert")
                    self.assertEqual("txnNumber" in insert, retries, "a write that may be repeated after other errors")
                    read = self.refused(lambda: (sent.commands.clear(), collection.find_one({"_id": 1})))
                    self.assertEqual((read.code, len(sent.of("find"))), (TOO_MANY_REQUESTS, 1))

    def test_waiting_and_repeating_writes_everything_once(self):
        self.until_refused(self.write_by_threads)

    def write_by_threads(self):
        names, count = ["a", "b", "c", "d"], 12
        repeated, failures = {name: Repeated() for name in names}, []

        def write(name):
            collection, again = self.db.c, repeated[name]
            try:
                for n in range(count):
                    # A document that had been written all the same would be there already when it comes again: 11000.
                    again(lambda: collection.insert_one({"_id": f"{name} {n}", "pad": "x" * 500}))
                    again(lambda: collection.update_one({"_id": name}, {"$inc": {"n": 1}}, upsert=True))
                    again(lambda: collection.find_one_and_update({"_id": "all"}, {"$inc": {"n": 1}}, upsert=True))
            except Exception as error:
                failures.append(error)

        writers = [threading.Thread(target=write, args=(name,)) for name in names]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.assertEqual(failures, [])
        counters = Repeated()(lambda: list(self.db.c.find({"n": {"$exists": True}})))
        wanted = {"all": len(names) * count, **{name: count for name in names}}
        self.assertEqual({one["_id"]: one["n"] for one in counters}, wanted)
        found = Repeated()(lambda: self.db.c.count_documents({"pad": "x" * 500}))
        self.assertEqual(found, len(names) * count)
        return sum(one.refusals for one in repeated.values())

    def test_what_a_bulk_write_has_left_is_sent_again(self):
        for ordered in (True, False):
            with self.subTest(ordered=ordered):
                self.until_refused(lambda: self.write_in_bulk(ordered))
                self.db.c.drop()
                self.make()

    def write_in_bulk(self, ordered):
        left = [{"_id": n, "pad": "x" * 500} for n in range(120)]
        refusals, inserted = 0, 0
        while left:
            try:
                inserted += len(self.db.c.insert_many(left, ordered=ordered).inserted_ids)
                left = []
            except BulkWriteError as error:
                failed = error.details["writeErrors"]
                self.assertEqual({one["code"] for one in failed}, {TOO_MANY_REQUESTS})
                refusals += 1
                self.assertLess(refusals, ATTEMPTS_MAX)
                inserted += error.details["nInserted"]
                places = [one["index"] for one in failed]
                left = left[places[0] :] if ordered else [left[place] for place in places]
                time.sleep(wait_of(failed[0]["errmsg"]) / 1000)
        found = Repeated()(lambda: self.db.c.count_documents({"_id": {"$lt": 120}}))
        self.assertEqual((inserted, found), (120, 120))
        return refusals

    def test_an_update_of_many_is_repeated_by_a_filter_that_leaves_out_what_is_done(self):
        self.until_refused(self.update_many)

    def update_many(self):
        for n in range(60):
            Repeated()(lambda: self.db.c.insert_one({"_id": n, "n": 0, "pad": "x" * 500}))
        # One by one: the documents before a refusal are changed, and those behind it not. Each refusal says how many.
        again, modified = Repeated(), 0

        def update():
            nonlocal modified
            try:
                modified += self.db.c.update_many({"n": 0}, {"$inc": {"n": 1}}).modified_count
            except WriteError as error:
                modified += error.details.get("errInfo", {}).get("nModified", 0)
                raise

        again(update)
        self.assertEqual(modified, 60)
        pipeline = [{"$match": {"_id": {"$lt": 60}}}, {"$group": {"_id": "$n", "count": {"$sum": 1}}}]
        self.assertEqual(Repeated()(lambda: list(self.db.c.aggregate(pipeline))), [{"_id": 1, "count": 60}])
        return again.refusals

    def test_a_transaction_that_is_refused_has_done_nothing_and_is_run_again(self):
        self.until_refused(self.transfer)

    def transfer(self):
        calls, again = [], Repeated()

        def work(session):
            calls.append(1)
            self.db.c.insert_one({"_id": "from"}, session=session)
            self.db.c.insert_one({"_id": "to"}, session=session)

        def run():
            with self.client.start_session() as session:
                session.with_transaction(work)

        again(run)
        # The driver's own loop is for other errors: the application waits, and begins anew.
        self.assertEqual(len(calls), again.refusals + 1)
        self.assertEqual(Repeated()(lambda: self.db.c.count_documents({"_id": {"$in": ["from", "to"]}})), 2)
        return again.refusals

    def test_more_throughput_is_there_at_once(self):
        again = Repeated()
        self.overload(LARGE)
        self.db.command({"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 10000})
        for n in range(20):
            again(lambda: self.db.c.insert_one({"_id": n}))
        self.assertEqual(again(lambda: self.db.c.count_documents({"_id": {"$lt": 20}})), 20)
