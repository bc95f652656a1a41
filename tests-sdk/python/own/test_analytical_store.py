"""The policy of the analytical store through the SDK, and the rows of its table in DuckDB."""

import pathlib
import time
import uuid

import duckdb
import duckdb_extension_delta
import operator_client
import pytest
from azure.cosmos import PartitionKey, exceptions

KEY = PartitionKey("/pk")
NAME = "analyticalStorageTtl"
# Columns of the table that items have no members for, and members that the table has no columns for.
TABLE_ONLY = {"_lsn", "_rest"}
ITEM_ONLY = {"_self", "_attachments"}


def create(database, **policy):
    """A container with a policy; a server without tables refuses the policy by name, and the test is skipped."""
    try:
        return database.create_container(f"c-{uuid.uuid4().hex[:8]}", KEY, **policy)
    except exceptions.CosmosHttpResponseError as refused:
        if refused.status_code == 501 and "not in this build" in refused.message:
            pytest.skip("the server is built without the feature 'analytics'")
        raise


def policy_of(container):
    return container.read().get(NAME)


def report(container):
    return operator_client.operate("GET", container, "analytics")


def followed(container):
    """The report of a table that has every change. The end turns a hang into a failure."""
    end = time.monotonic() + operator_client.HANG_SECONDS
    while True:
        now = report(container)
        if now["state"] == "following" and now["lag"]["changes"] == 0 and now["figures"]["version"] is not None:
            return now
        assert now["state"] != "failed" and time.monotonic() < end, now
        time.sleep(0.05)


def rows(container):
    """Rows of the table as items, by id, without members that are NULL."""
    folder = pathlib.Path(duckdb_extension_delta.__file__).parent
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{next(folder.rglob('*.duckdb_extension'))}'")
    cursor = connection.execute(f"SELECT * FROM delta_scan('{report(container)['location']}')")
    names = [column[0] for column in cursor.description]
    found = [dict(zip(names, row)) for row in cursor.fetchall()]
    assert all(row["_rest"] is None for row in found), "columns hold all values"
    return by_id({name: value for name, value in row.items() if name not in TABLE_ONLY and value is not None} for row in found)


def items(container):
    """Items as the SDK reads them, by id."""
    read = container.read_all_items()
    return by_id({name: value for name, value in item.items() if name not in ITEM_ONLY} for item in read)


def by_id(found):
    found = list(found)
    assert len({item["id"] for item in found}) == len(found), "an id is there twice"
    return {item["id"]: item for item in found}


def write(container, numbers):
    for n in numbers:
        container.upsert_item({"id": f"i{n}", "pk": f"k{n % 5}", "n": n, "price": n + 0.5, "tags": ["a", f"t{n}"], "at": {"city": "Oslo"}})


# check: analytical-store
def test_a_table_follows_from_the_creation_of_its_container(database):
    container = create(database, analytical_storage_ttl=-1)
    assert policy_of(container) == -1
    write(container, range(20))
    write(container, range(5, 8))
    container.patch_item("i1", "k1", [{"op": "set", "path": "/n", "value": 1000}])
    container.delete_item("i2", "k2")
    assert followed(container)["figures"]["rows"] == 19
    assert rows(container) == items(container)


# check: analytical-store
def test_a_replace_without_the_policy_keeps_it(database):
    container = create(database, analytical_storage_ttl=-1)
    write(container, range(3))
    database.replace_container(container, KEY, default_ttl=3600)
    properties = container.read()
    assert (properties["defaultTtl"], properties[NAME]) == (3600, -1)
    write(container, range(3, 6))
    followed(container)
    assert rows(container) == items(container)


# check: analytical-store
def test_a_closed_table_stays_readable_and_continues_when_it_is_enabled_again(database):
    container = create(database, analytical_storage_ttl=-1)
    write(container, range(10))
    generation = followed(container)["figures"]["generation"]
    before = items(container)

    database.replace_container(container, KEY, analytical_storage_ttl=0)
    assert policy_of(container) == 0
    assert report(container)["state"] == "closed"
    write(container, range(10, 15))
    container.delete_item("i0", "k0")
    database.replace_container(container, KEY)
    assert (policy_of(container), report(container)["state"]) == (0, "closed")
    assert rows(container) == before

    database.replace_container(container, KEY, analytical_storage_ttl=-1)
    assert policy_of(container) == -1
    assert followed(container)["figures"]["generation"] == generation, "the table continues"
    assert rows(container) == items(container)


# check: analytical-store
def test_a_container_gets_its_table_later(database):
    # Skips where no container may have the policy.
    database.delete_container(create(database, analytical_storage_ttl=-1))
    container = database.create_container(f"late-{uuid.uuid4().hex[:8]}", KEY)
    assert NAME not in container.read()
    with pytest.raises(AssertionError, match="AnalyticsNotEnabled"):
        report(container)
    write(container, range(12))
    database.replace_container(container, KEY, analytical_storage_ttl=86_400)
    assert policy_of(container) == 86_400
    assert followed(container)["ttl"] == 86_400
    assert rows(container) == items(container)


# check: analytical-store
@pytest.mark.parametrize("value", [-2, 2_147_483_648, "soon"])
def test_other_values_are_refused_by_name(database, value):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        database.create_container(f"bad-{uuid.uuid4().hex[:8]}", KEY, analytical_storage_ttl=value)
    assert refused.value.status_code == 400
    assert NAME in refused.value.message
