"""Queries in the middle of their pages while the partitions under them are split: the SDK's user sees every item once, and no error."""

import time
import uuid

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
