"""Requests of .NET's change feed processor, which the Azure Functions trigger uses too: with two hosts, handlers that fail, splits, a
merge and a host that dies, no change is skipped and those of a key keep their order."""

import os
import random
import uuid

import operator_client
import pytest
from azure.cosmos import CosmosClient, PartitionKey
from processor_hosts import LEASE_SECONDS, Host, Service

KEYS = 12


class HandlerFailed(Exception):
    pass


class World:
    def __init__(self, database, random):
        self.monitored = database.create_container("monitored", PartitionKey("/pk"), offer_throughput=11_000)
        database.create_container("leases", PartitionKey("/id"))
        self.service = Service(database.id, "monitored", "leases")
        self.random, self.now, self.written, self.handled = random, 0, 0, 0
        self.expected, self.seen = {}, {}
        self.may_fail = True

    def write(self):
        """An item of its own for each change, so that no later version hides one that is skipped."""
        self.written += 1
        key = f"k{self.random.randrange(KEYS)}"
        self.monitored.create_item({"id": str(self.written), "pk": key, "n": self.written})
        self.expected.setdefault(key, []).append(self.written)

    def handle(self, host, items):
        if self.may_fail and self.random.random() < 0.2:
            raise HandlerFailed
        for item in items:
            found = self.seen.setdefault(item["pk"], [])
            self.handled += 1
            # A page whose position was not written comes again.
            if item["n"] not in found:
                found.append(item["n"])

    def host(self, name):
        return Host(name, self.service, "trigger127.0.0.1_x", lambda: self.now, self.handle)

    def step(self, host):
        self.now += 1
        if not host.held or self.random.random() < 0.3:
            host.balance()
            return
        try:
            host.read(self.random.choice(sorted(host.held)))
        except HandlerFailed:
            pass  # No position was written: the page comes again.

    def is_level(self):
        return sum(map(len, self.seen.values())) == self.written


@pytest.mark.parametrize("seed", range(int(os.environ.get("SHARDLAKE_PROCESSOR_SEEDS", "3"))))
def test_two_hosts_skip_no_change(seed):
    client = CosmosClient(os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"])
    database = client.create_database(f"hosts-{uuid.uuid4().hex[:8]}")
    try:
        world = World(database, random.Random(seed))
        first, second = world.host("first"), world.host("second")
        assert first.start()
        assert second.start(), "the leases are there"
        hosts = [first, second]
        events = {40: operator_client.split, 90: operator_client.split, 140: operator_client.merge}
        for number in range(220):
            if world.random.random() < 0.6:
                world.write()
            if number in events:
                events[number](world.monitored)
            if number == 180:
                hosts.remove(second)  # It dies: its leases end by time alone.
                world.now += LEASE_SECONDS + 1
            world.step(world.random.choice(hosts))
        world.may_fail = False
        # Each lease needs a few steps to be taken and read to its end.
        for _ in range(2000):
            if world.is_level():
                break
            world.step(first)
        assert world.seen == world.expected, "every change, in the order of its key"
        tokens = {lease["LeaseToken"] for lease in world.service.query_leases(first.prefix)}
        assert any("-" in token for token in tokens), f"a merge leaves leases of parts: {tokens}"
    finally:
        client.delete_database(database)
