"""Two competing processors, made of the SDK's pull model and leases: every change comes at least once and in the order of its key, also
when a partition is split in between and one of the processors is killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

import lease_processor
import pytest
from azure.cosmos import CosmosClient, PartitionKey

KEYS = 24
VERSIONS = 12
# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 500


@pytest.fixture
def world(tmp_path):
    client = CosmosClient(os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"])
    database = client.create_database(f"processors-{uuid.uuid4().hex[:8]}")
    # Two partitions; all versions are kept, so that no change hides behind a later one.
    monitored = database.create_container(
        "monitored", PartitionKey("/pk"), offer_throughput=11_000, change_feed_policy={"retentionDuration": 60}
    )
    leases = database.create_container("leases", PartitionKey("/id"))
    readers = []

    def start(name):
        output = tmp_path / f"{name}.jsonl"
        command = [sys.executable, lease_processor.__file__, name, database.id, monitored.id, leases.id, output]
        readers.append(subprocess.Popen([str(part) for part in command]))
        return readers[-1], output

    yield monitored, leases, start
    for reader in readers:
        reader.kill()
        reader.wait()
    client.delete_database(database)


def entries(*outputs):
    lines = [line for output in outputs if output.exists() for line in output.read_text(encoding="utf-8").splitlines()]
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # a reader was killed in the middle of its line
    return sorted(found, key=lambda entry: entry["at"])


def wait_for(what, condition):
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.05)


def version_of(entry):
    current = entry["change"]["current"]
    return current["pk"], current["v"]


# check: change-feed-motion
def test_every_change_comes_in_the_order_of_its_key_through_a_split_and_a_death(world):
    monitored, leases, start = world
    lease_processor.create_leases(monitored, leases, "AllVersionsAndDeletes")
    first, first_output = start("first")
    _second, second_output = start("second")

    def handled():
        return {version_of(entry) for entry in entries(first_output, second_output)}

    def owners():
        return {lease["owner"] for lease in leases.read_all_items() if lease["until"] > time.time()}

    wait_for("both have a lease", lambda: owners() == {"first", "second"})
    expected = set()
    for version in range(1, VERSIONS + 1):
        for key in range(KEYS):
            monitored.upsert_item({"id": "item", "pk": f"k{key}", "v": version})
            expected.add((f"k{key}", version))
        if version == VERSIONS // 3:
            monitored.replace_throughput(25_000)
        if version == 2 * VERSIONS // 3:
            first.send_signal(signal.SIGKILL)
            first.wait()
    wait_for("everything is handled", lambda: handled() == expected)
    wait_for("the split is over", lambda: len(list(monitored.read_feed_ranges(force_refresh=True))) == 3)
    wait_for("the leases of the dead are taken", lambda: owners() == {"second"})
    all_entries = entries(first_output, second_output)
    assert {entry["reader"] for entry in all_entries} == {"first", "second"}
    for key in range(KEYS):
        versions = [version for pk, version in map(version_of, all_entries) if pk == f"k{key}"]
        # A page may come again, from its beginning; nothing ever comes before what it follows.
        highest = 0
        for version in versions:
            assert version <= highest + 1, f"k{key}: {versions}"
            highest = max(highest, version)
        assert highest == VERSIONS


def test_of_two_who_want_a_lease_one_gets_it(world):
    monitored, leases, _ = world
    lease_processor.create_leases(monitored, leases, "LatestVersion")
    readers = [lease_processor.Processor(name, monitored, leases, lambda *_: None) for name in ("first", "second")]
    seen = list(leases.read_all_items())
    assert len(seen) == 2
    taken = [reader.write({**seen[0], "owner": reader.name, "until": time.time() + 60}) for reader in readers]
    assert [bool(lease) for lease in taken] == [True, False]
    readers[1].round()
    owners = {lease["id"]: lease["owner"] for lease in leases.read_all_items()}
    assert owners == {"lease-0": "first", "lease-1": "second"}
