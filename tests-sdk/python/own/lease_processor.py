"""A change feed processor made of the SDK's pull model: an example, and what test_processors.py runs several of.

The leases are items of a small container, one for each feed range of the monitored container. Whoever holds a lease reads that range:

* *Taking*: a lease that nobody holds, or whose time is over, is taken by a replace under its etag, so of two readers that want it
  one gets it. A reader takes as many as are its share among those who hold any, and at most one more in each round.
* *Processing*: a page is handled first, then its continuation is written to the lease, under the etag as well. A reader that dies between
  the two has its page handled again by the next: every change comes at least once.
* *Losing*: a write to the lease that is refused says that somebody else has it. The reader lets go without a checkpoint.

A continuation of the SDK goes on over the ranges that its own was split into, so leases need not follow splits.

    python lease_processor.py NAME DATABASE MONITORED LEASES OUTPUT

reads with the account of SHARDLAKE_HTTP and SHARDLAKE_KEY until it is killed, and appends a line of JSON to OUTPUT for each change.
"""

import json
import math
import os
import sys
import time

from azure.core import MatchConditions
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosAccessConditionFailedError, CosmosResourceExistsError

LEASE_SECONDS = 2.0
ROUND_SECONDS = 0.05
PAGE_ITEMS = 10


def create_leases(monitored, leases, mode):
    """One for each feed range, which begins with the changes from now on. Readers that start together may all call it."""
    for number, feed_range in enumerate(monitored.read_feed_ranges(force_refresh=True)):
        monitored_from_now = monitored.query_items_change_feed(feed_range=feed_range, start_time="Now", mode=mode)
        assert list(monitored_from_now) == []
        continuation = monitored.client_connection.last_response_headers["etag"]
        lease = {"id": f"lease-{number}", "owner": None, "until": 0, "continuation": continuation}
        try:
            leases.create_item(lease)
        except CosmosResourceExistsError:
            pass


class Processor:
    """One reader. `handle` gets the name of a lease and a page of changes; it may get the same page again after a failure."""

    def __init__(self, name, monitored, leases, handle):
        self.name = name
        self.monitored = monitored
        self.leases = leases
        self.handle = handle

    def round(self):
        """Takes what is its share, and handles a page of each lease that it holds. Gives how many changes there were."""
        leases = sorted(self.leases.read_all_items(), key=lambda lease: lease["id"])
        owned = [lease for lease in leases if lease["owner"] == self.name and lease["until"] > time.time()]
        taken = self.take_one(leases, owned)
        return sum(self.process(lease) for lease in owned + taken)

    def take_one(self, leases, owned):
        now = time.time()
        owners = {lease["owner"] for lease in leases if lease["until"] > now} | {self.name}
        if len(owned) >= math.ceil(len(leases) / len(owners)):
            return []
        free = [lease for lease in leases if lease["until"] <= now]
        if not free:
            # Others have more than their share: the one with the most gives one up.
            held = [lease for lease in leases if lease["owner"] != self.name]
            most = max(held, key=lambda lease: sum(other["owner"] == lease["owner"] for other in held), default=None)
            if most is None or sum(other["owner"] == most["owner"] for other in held) <= len(owned) + 1:
                return []
            free = [most]
        lease = self.write({**free[0], "owner": self.name, "until": now + LEASE_SECONDS})
        return [lease] if lease else []

    def process(self, lease):
        pages = self.monitored.query_items_change_feed(
            continuation=lease["continuation"], max_item_count=PAGE_ITEMS
        ).by_page()
        changes = list(next(pages, []))
        continuation = self.monitored.client_connection.last_response_headers["etag"]
        # The page took its time: nothing is handled that somebody else may have by now.
        if time.time() >= lease["until"] - LEASE_SECONDS / 4:
            lease = self.write({**lease, "until": time.time() + LEASE_SECONDS})
            if not lease:
                return 0
        if changes:
            self.handle(lease["id"], changes)
        if changes or lease["until"] - time.time() < LEASE_SECONDS / 2:
            self.write({**lease, "continuation": continuation, "until": time.time() + LEASE_SECONDS})
        return len(changes)

    def write(self, lease):
        """The lease as it is stored now; nothing when somebody else has written it since it was read."""
        try:
            return self.leases.replace_item(
                lease["id"], lease, etag=lease["_etag"], match_condition=MatchConditions.IfNotModified
            )
        except CosmosAccessConditionFailedError:
            return None


def main():
    name, database, monitored, leases, output = sys.argv[1:]
    client = CosmosClient(os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"])
    database = client.get_database_client(database)
    with open(output, "a", encoding="utf-8", buffering=1) as lines:

        def handle(lease, changes):
            for change in changes:
                entry = {"reader": name, "lease": lease, "at": time.monotonic_ns(), "change": change}
                lines.write(json.dumps(entry) + "\n")

        processor = Processor(
            name, database.get_container_client(monitored), database.get_container_client(leases), handle
        )
        while True:
            if not processor.round():
                time.sleep(ROUND_SECONDS)


if __name__ == "__main__":
    main()
