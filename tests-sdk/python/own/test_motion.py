"""Queries in the middle of their pages while the partitions under them are split and merged: the SDK's user sees every item once, and no
error. `SHARDLAKE_MOTION_PLACES=all` moves partitions between any two pages instead of a few."""

import itertools
import os
import time
import uuid

import operator_client
import pytest
from azure.cosmos import PartitionKey

ITEMS = 300
# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 500

QUERIES = {
    "plain": ("SELECT VALUE c.n FROM c", None),
    "filtered": ("SELECT VALUE c.n FROM c WHERE c.n > 0", None),
    "ordered": ("SELECT VALUE c.n FROM c ORDER BY c.n", lambda n: n),
    "descending": ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", lambda n: -n),
    "equals": ("SELECT VALUE c.n FROM c ORDER BY c.tie", lambda n: n % 5),
    "distinct": ("SELECT DISTINCT VALUE c.n FROM c", None),
}


@pytest.fixture
def container(client):
    database = client.create_database(f"motion-{uuid.uuid4().hex[:8]}")
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=400)
    for n in range(1, ITEMS + 1):
        container.create_item({"id": f"i{n}", "pk": f"k{n % 100}", "n": n, "tie": n % 5})
    yield container
    client.delete_database(database)


def raise_throughput(container, throughput):
    """Returns when the partitions have been split. The SDK's map of them stays as it is: it learns of splits by itself."""
    container.replace_throughput(throughput)
    end = time.monotonic() + HANG_SECONDS
    while container.get_throughput().properties["content"]["isOfferReplacePending"]:
        assert time.monotonic() < end, "the split does not end"
        time.sleep(0.05)


# check: motion-open-queries
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_goes_on_through_splits(container, query):
    text, key = QUERIES[query]
    pages = container.query_items(text, max_item_count=7, enable_cross_partition_query=True).by_page()
    raises = [11_000, 25_000]
    found = []
    for page, rows in enumerate(pages):
        found.extend(rows)
        if page in (2, 6):
            raise_throughput(container, raises.pop(0))
    assert not raises
    assert len(list(container.read_feed_ranges(force_refresh=True))) == 3
    assert sorted(found) == list(range(1, ITEMS + 1))
    if key:
        assert [key(n) for n in found] == sorted(key(n) for n in found)


TENANT_ITEMS = 40


@pytest.fixture
def tenants(client):
    """Two tenants, whose items lie in one partition."""
    database = client.create_database(f"tenants-{uuid.uuid4().hex[:8]}")
    container = database.create_container("c", PartitionKey(["/tenant", "/pk"], kind="MultiHash"), offer_throughput=400)
    for tenant, n in itertools.product(["a", "b"], range(TENANT_ITEMS)):
        container.create_item({"id": f"i{n}", "tenant": tenant, "pk": f"k{n}", "n": n})
    yield container
    client.delete_database(database)


# Beside a range the SDK sends nothing, a feed range, or a window inside the range.
SCOPES = {
    "feed range": (lambda container: {"feed_range": next(iter(container.read_feed_ranges()))}, ["a", "b"]),
    "prefix": (lambda container: {"partition_key": ["a"]}, ["a"]),
    "everything": (lambda container: {"enable_cross_partition_query": True}, ["a", "b"]),
}
PAGE = 10


def places(pages):
    """Behind which pages partitions are split, split again and merged."""
    if os.environ.get("SHARDLAKE_MOTION_PLACES") == "all":
        return list(itertools.combinations(range(pages - 1), 3))
    return [(0, 1, 2)]


# check: motion-hierarchical
@pytest.mark.parametrize("text", ["SELECT VALUE c.tenant || ToString(c.n) FROM c", "SELECT * FROM c WHERE c.n >= 0"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_query_of_a_range_or_a_prefix_goes_on_through_splits_and_merges(tenants, scope, text):
    options, of = SCOPES[scope]
    expected = sorted(f"{tenant}{n}" for tenant in of for n in range(TENANT_ITEMS))
    name = lambda row: row if isinstance(row, str) else f"{row['tenant']}{row['n']}"  # noqa: E731
    for chosen in places(len(expected) // PAGE):
        # The map of the SDK is as it was when the query began.
        tenants.client_connection.refresh_routing_map_provider()
        motions = dict(zip(chosen, [operator_client.split, operator_client.split, operator_client.merge]))
        found = []
        pages = tenants.query_items(text, max_item_count=PAGE, **options(tenants)).by_page()
        for page, rows in enumerate(pages):
            found.extend(name(row) for row in rows)
            motions.pop(page, lambda _: None)(tenants)
        assert not motions, f"{chosen}: everything happened while the query was read"
        assert sorted(found) == expected, chosen
        while len(operator_client.ranges(tenants)) > 1:
            operator_client.merge(tenants)


def test_a_prefix_whose_range_is_gone_before_its_first_page_shows_no_other_tenant(tenants):
    assert len(list(tenants.query_items("SELECT VALUE c.tenant FROM c", partition_key=["a"]))) == TENANT_ITEMS
    operator_client.split(tenants)
    for tenant in ["a", "b"]:
        rows = list(tenants.query_items("SELECT VALUE c.tenant FROM c", partition_key=[tenant], max_item_count=PAGE))
        assert rows == [tenant] * TENANT_ITEMS
