"""Reads tables of a live server with other engines while containers change, and compares them with a scan, row by row.

    SHARDLAKE_HTTP=… SHARDLAKE_KEY=… live.py [--seeds N] [--first SEED] [--reader duckdb|polars|delta-rs|spark ...]

Each seed is a container with random creates, replaces, deletes, transactional batches, items that
run out, splits, merges, compactions and rebuilds. `count(*)` and filters are compared on their own,
because engines answer them from statistics. The output is that of the Test Anything Protocol.
"""

import argparse
import collections
import random
import sys
import traceback
import urllib.error
import uuid

from account import Account, Container
from documents import document_of, text_of
from readers import READERS

STEPS = 100
COMPARISONS = 2
PARTITIONS_MAX = 4
SYSTEM = {"_rid", "_ts", "_etag", "_self", "_attachments"}
TEXTS = ["", "a", "Ünï ☃", "it's", 'quo"te', "back\\slash", "line\nbreak", "0", "2024-11-21T10:00:00Z", "x" * 300]
NUMBERS = [0, 1, -1, 7, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0.5, -0.25, 1e300, 12345.678]
NAMES = ["a", "b", "First Name", "UPPER", "upper", "_x0020_", "ümlaut", "a.b", "a/b~c", "_lsn", "_rest", "deep"]


class Model:
    """Rows that the table must have: items, and versions that ran out."""

    def __init__(self):
        self.live, self.history = {}, {}

    def put(self, item):
        former = self.live.get(item["id"])
        if former and former["_rid"] != item["_rid"]:
            assert "ttl" in former, f"only items that run out are created anew: {former}"
            self.history[former["_rid"]] = former
        self.live[item["id"]] = item

    def delete(self, id):
        del self.live[id]

    def run_out(self, id):
        former = self.live.pop(id)
        assert "ttl" in former, f"only items with a time to live run out: {former}"
        self.history[former["_rid"]] = former

    def rows(self):
        return self.history | {item["_rid"]: item for item in self.live.values()}


class Run:
    """A container with its model, and the random choices of a seed."""

    def __init__(self, account, database, seed):
        self.random, self.model, self.n = random.Random(seed), Model(), 0
        self.schema = self.random.choice(["wellDefined", "wellDefined", "fullFidelity"])
        settings = {"schema": self.schema, "rebuild": True}
        if self.random.random() < 0.3:
            settings["clusterBy"] = ["/n"]
        self.container = Container(account, database, f"s{seed}", settings, defaultTtl=-1)

    def value(self, depth=0):
        kind = self.random.random()
        if depth < 3 and kind < 0.15:
            return {name: self.value(depth + 1) for name in self.random.sample(NAMES, self.random.randrange(4))}
        if depth < 3 and kind < 0.3:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return self.random.choice([None, True, False, self.random.choice(TEXTS), self.random.choice(NUMBERS), self.random.randrange(100)])

    def body(self, id, pk):
        self.n += 1
        item = {"id": id, "pk": pk, "n": self.n, "city": self.random.choice(["Oslo", "Turku", "Graz"])}
        item |= {name: self.value() for name in self.random.sample(NAMES, self.random.randrange(5))}
        if self.random.random() < 0.1:
            item["ttl"] = self.random.choice([1, 2, 3, 1000])
        return item

    def new(self, pk=None):
        return self.body(f"i{self.n}", pk or f"k{self.random.randrange(9)}")

    def any_live(self):
        return self.random.choice(list(self.model.live.values())) if self.model.live else None

    # Steps.

    def write(self):
        self.model.put(self.container.upsert(self.new()))

    def replace(self):
        if item := self.any_live():
            self.model.put(self.container.upsert(self.body(item["id"], item["pk"])))

    def delete(self):
        if item := self.any_live():
            try:
                self.container.delete(item)
                self.model.delete(item["id"])
            except urllib.error.HTTPError as refused:
                if refused.code != 404:
                    raise
                self.model.run_out(item["id"])

    def transaction(self):
        pk = f"k{self.random.randrange(9)}"
        own = [item for item in self.model.live.values() if item["pk"] == pk]
        chosen = self.random.sample(own, min(len(own), self.random.randrange(3)))
        operations, bodies = [], []
        for item in chosen:
            if self.random.random() < 0.5:
                operations.append({"operationType": "Delete", "id": item["id"]})
            else:
                body = self.body(item["id"], pk)
                operations.append({"operationType": "Replace", "id": item["id"], "resourceBody": body})
        for _ in range(self.random.randrange(1, 4)):
            bodies.append(self.new(pk))
            operations.append({"operationType": self.random.choice(["Create", "Upsert"]), "resourceBody": bodies[-1]})
        if self.random.random() < 0.3:
            # A later version of the same commit, and an item that begins and ends in it.
            operations.append({"operationType": "Upsert", "resourceBody": self.body(bodies[0]["id"], pk)})
            passing = self.new(pk)
            operations.append({"operationType": "Create", "resourceBody": passing})
            operations.append({"operationType": "Delete", "id": passing["id"]})
        if self.random.random() < 0.2:
            operations.append({"operationType": "Delete", "id": "is not there"})
        results = self.container.batch(pk, operations)
        if any(result["statusCode"] >= 400 for result in results):
            assert all(result["statusCode"] >= 400 for result in results), results
            return
        # Net effects: the last version of each item, or its end.
        for operation, result in zip(operations, results):
            if operation["operationType"] != "Delete":
                self.model.put(result["resourceBody"])
            elif operation["id"] in self.model.live:
                self.model.delete(operation["id"])

    def split(self):
        partitions = self.container.partitions()["partitions"]
        if len(partitions) < PARTITIONS_MAX:
            self.container.relocate(f"{self.random.choice(partitions)['id']}/split")

    def merge(self):
        ids = [partition["id"] for partition in self.container.partitions()["partitions"]]
        if len(ids) > 1:
            at = self.random.randrange(len(ids) - 1)
            self.container.relocate("merge", {"ids": ids[at : at + 2]})

    def compact(self):
        self.container.followed()
        self.container.compact(self.random.random() < 0.5)

    def rebuild(self):
        self.container.operate("POST", "/rebuild")

    def pause(self):
        self.container.operate("POST", "/pause")
        for _ in range(4):
            self.random.choice([self.write, self.replace, self.delete])()
        self.container.operate("POST", "/resume")

    def glimpse(self, readers):
        """A table that may be behind: each row is there once, in each engine."""
        report = self.container.operate("GET")
        if report["figures"]["version"] is None:
            # The first copy is under way.
            return []
        location, problems = report["location"], []
        for name, reader in readers.items():
            try:
                rids = [row["_rid"] for row in reader.rows(location)]
            except Exception as error:  # each library has its own
                problems += [f"{name}: {line}" for line in traceback.format_exception_only(error)]
                continue
            problems += [f"{name} reads {rid} {times} times" for rid, times in collections.Counter(rids).items() if times > 1]
        return problems

    def steps(self):
        often = [self.write, self.write, self.write, self.replace, self.replace, self.delete, self.transaction, self.transaction]
        seldom = [self.split, self.merge, self.compact, self.rebuild, self.pause]
        for _ in range(STEPS // COMPARISONS):
            yield self.random.choice(seldom if self.random.random() < 0.1 else often)

    def compare(self, readers):
        """Sentences about differences between the model, the scan and the engines."""
        report = self.container.followed()
        items = {item["_rid"]: item for item in self.container.items()}
        rows = self.model.rows()
        found = [f"the scan has {rid}, which the model lacks" for rid in items.keys() - rows.keys()]
        found += [f"the scan has {item}, the model {rows[rid]}" for rid, item in items.items() if rid in rows and rows[rid] != item]
        missing = rows.keys() - items.keys()
        found += [f"the scan lacks {rows[rid]}" for rid in missing if "ttl" not in rows[rid]]
        if report["counts"]["lostHistory"]:
            found.append(f"history was lost: {report['counts']}")
        expected = {rid: self.plain(item) for rid, item in rows.items()}
        for name, reader in readers.items():
            found += [f"{name}: {problem}" for problem in self.differences(reader, report["location"], expected)]
        verified = self.container.verify()["orders"][-1]
        if not verified["isRight"]:
            found.append(f"verify: {verified['outcome']}")
        return found

    def plain(self, item):
        document = {name: value for name, value in item.items() if name not in SYSTEM}
        return item["_ts"], item["_etag"], item["n"], text_of(document)

    def differences(self, reader, location, expected):
        found, rows = [], {}
        is_full = self.schema == "fullFidelity"
        for row in reader.rows(location):
            document = document_of(row, is_full)
            if row["_rid"] in rows:
                found.append(f"{row['_rid']} is there twice")
            rows[row["_rid"]] = row["_ts"], row["_etag"], document["n"], text_of(document)
        for rid in sorted(rows.keys() | expected.keys()):
            if rows.get(rid) != expected.get(rid):
                found.append(f"{rid}: read {rows.get(rid)}, expected {expected.get(rid)}")
        if reader.count(location) != len(expected):
            found.append(f"counted {reader.count(location)} of {len(expected)} rows")
        for column, place in [("_ts", 0), ("n.num" if is_full else "n", 2)] if expected else []:
            values = sorted(row[place] for row in expected.values())
            least = values[self.random.randrange(len(values))]
            chosen = [rid for rid, row in expected.items() if row[place] >= least]
            answer = tuple(reader.filtered(location, least, column))
            if answer != (len(chosen), min(chosen)):
                found.append(f"{column} >= {least}: found {answer}, not {len(chosen)} rows from {min(chosen)} on")
        return found


def problems_of(run, readers):
    """The differences in the course of a seed, at most ten."""
    found = []
    for _ in range(COMPARISONS):
        for number, step in enumerate(run.steps()):
            step()
            if number % 10 == 9:
                found += run.glimpse(readers)
        found += run.compare(readers)
    return found[:10]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--reader", action="append", choices=READERS)
    arguments = arguments.parse_args()
    readers = {name: READERS[name]() for name in arguments.reader or ["duckdb", "polars", "delta-rs"]}
    account, database = Account(), f"live-{uuid.uuid4().hex[:8]}"
    account.send("POST", "dbs", "", {"id": database}, feed="dbs")
    results = collections.Counter()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        try:
            run = Run(account, database, seed)
            found, rows = problems_of(run, readers), len(run.model.rows())
        except Exception:
            found, rows = traceback.format_exc().splitlines(), 0
        print(f"{'not ok' if found else 'ok'} - seed {seed}: {', '.join(readers)} read {rows} rows", *found, sep="\n    ", flush=True)
        results["fail" if found else "pass"] += 1
    account.send("DELETE", "dbs", f"dbs/{database}")
    print(f"# pass {results['pass']}", f"# fail {results['fail']}", "# skipped 0", sep="\n")
    sys.exit(1 if results["fail"] or not results["pass"] else 0)


main()
