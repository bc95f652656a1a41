"""Capped collections and cursors at their end, as an application tails a log."""

import threading

from pymongo import CursorType
from support import WithDatabase


class CappedCollections(WithDatabase):
    def test_a_reader_follows_a_log_that_others_write(self):
        log = self.db.create_collection("log", capped=True, size=1 << 16, max=100)
        self.assertEqual(log.options()["max"], 100)
        self.assertTrue(self.db.command("collStats", "log")["capped"])
        log.insert_one({"n": 0})
        cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
        self.assertEqual(next(cursor)["n"], 0)

        def write():
            for n in range(1, 51):
                log.insert_one({"n": n})

        writer = threading.Thread(target=write)
        writer.start()
        self.assertEqual([next(cursor)["n"] for _ in range(50)], list(range(1, 51)))
        writer.join()
        self.assertTrue(cursor.alive)
        cursor.close()
        log.insert_many([{"n": n} for n in range(51, 251)])
        self.assertEqual([document["n"] for document in log.find()], list(range(151, 251)))
        self.assertEqual(next(log.find().sort("$natural", -1))["n"], 250)

    def test_a_cursor_that_falls_behind_ends(self):
        log = self.db.create_collection("log", capped=True, size=1 << 16, max=10)
        log.insert_many([{"n": n} for n in range(10)])
        cursor = log.find(cursor_type=CursorType.TAILABLE, batch_size=2)
        self.assertEqual([next(cursor)["n"] for _ in range(2)], [0, 1])
        log.insert_many([{"n": n} for n in range(10, 20)])
        # The driver shows no error of a tailable cursor that the server has closed.
        self.assertEqual((list(cursor), cursor.alive), ([], False))

    def test_a_collection_is_converted(self):
        self.db.things.create_index("n")
        self.db.things.insert_many([{"_id": n, "n": n} for n in range(1000)])
        self.db.command("convertToCapped", "things", size=8192)
        kept = [document["n"] for document in self.db.things.find()]
        self.assertEqual(kept, list(range(1000 - len(kept), 1000)))
        self.assertLess(len(kept), 1000)
        self.assertEqual(self.db.things.count_documents({"n": {"$gte": 0}}), len(kept))
