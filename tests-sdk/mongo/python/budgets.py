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
        self.db.command({"customAction": "CreateCollection", "collection": "c", "offerThroughput": 400})
        self.assertEqual(self.db.command({"customAction": "GetCollection", "collection": "c"})["provisionedThroughput"], 400)

    def tearDown(self):
        self.client.drop_database(self.db.name)
        self.client.close()

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
                if name != "aggregate":  # whose stages keep a failure's code and words
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

        # Nobody comes before there is a debt.
        self.overload(MIDDLING)
        writers = [threading.Thread(target=write, args=(name,)) for name in names]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.assertEqual(failures, [])
        self.assertGreater(sum(one.refusals for one in repeated.values()), 0)
        counters = Repeated()(lambda: list(self.db.c.find({"n": {"$exists": True}})))
        wanted = {"all": len(names) * count, **{name: count for name in names}}
        self.assertEqual({one["_id"]: one["n"] for one in counters}, wanted)
        found = Repeated()(lambda: self.db.c.count_documents({"pad": "x" * 500}))
        self.assertEqual(found, len(names) * count)

    def test_what_a_bulk_write_has_left_is_sent_again(self):
        for ordered in (True, False):
            with self.subTest(ordered=ordered):
                left = [{"_id": f"{ordered} {n}", "ordered": ordered, "pad": "x" * 500} for n in range(120)]
                refusals, inserted = 0, 0
                self.overload(MIDDLING)
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
                self.assertGreater(refusals, 0)
                found = Repeated()(lambda: self.db.c.count_documents({"ordered": ordered}))
                self.assertEqual((inserted, found), (120, 120))

    def test_a_transaction_that_is_refused_has_done_nothing_and_is_run_again(self):
        calls, again = [], Repeated()
        self.overload(MIDDLING)

        def transfer(session):
            calls.append(1)
            self.db.c.insert_one({"_id": "from"}, session=session)
            self.db.c.insert_one({"_id": "to"}, session=session)

        def run():
            with self.client.start_session() as session:
                session.with_transaction(transfer)

        again(run)
        self.assertGreater(again.refusals, 0)
        # The driver's own loop is for other errors: the application waits, and begins anew.
        self.assertEqual(len(calls), again.refusals + 1)
        self.assertEqual(Repeated()(lambda: self.db.c.count_documents({"_id": {"$in": ["from", "to"]}})), 2)

    def test_more_throughput_is_there_at_once(self):
        again = Repeated()
        self.overload(LARGE)
        self.db.command({"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 10000})
        for n in range(20):
            again(lambda: self.db.c.insert_one({"_id": n}))
        self.assertEqual(again(lambda: self.db.c.count_documents({"_id": {"$lt": 20}})), 20)
