"""Global secondary indexes through the SDK: definitions, the list of a source, order of deletions, refused writes."""

import time
import uuid

import pytest
from azure.cosmos import GlobalSecondaryIndexDefinition, PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

DEFINITION = "SELECT c.customerId, c.email FROM c"
# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 120


@pytest.fixture
def source(database):
    created = database.create_container(f"customer-{uuid.uuid4().hex[:8]}", PartitionKey("/customerId"))
    yield created
    for container in list(database.list_containers()):
        if sourced(container) == created.id:
            database.delete_container(container["id"])
    database.delete_container(created)


def sourced(properties):
    return properties.get("globalSecondaryIndexDefinition", {}).get("sourceCollectionId")


def create(database, source, definition=DEFINITION, **options):
    index = GlobalSecondaryIndexDefinition(source_container_id=source.id, definition=definition)
    name = f"byEmail-{uuid.uuid4().hex[:8]}"
    return database.create_container(name, PartitionKey("/email"), global_secondary_index=index, **options)


def refused(status, words, work):
    with pytest.raises(CosmosHttpResponseError) as caught:
        work()
    assert caught.value.status_code == status, caught.value
    assert words in caught.value.message
    return caught.value


def until(expected, work):
    """Polls until `work` gives `expected`: an index follows its source a little later."""
    end = time.monotonic() + HANG_SECONDS
    while (found := work()) != expected:
        assert time.monotonic() < end, found
        time.sleep(0.05)


def status(index):
    return index.read()["globalSecondaryIndexDefinition"]["status"]


def rows(index, *names):
    """These properties of all rows, in an order of their own."""
    read = index.query_items("SELECT * FROM c", enable_cross_partition_query=True)
    return sorted((tuple(row.get(name) for name in ("_id", *names)) for row in read), key=str)


# check: secondary-index-rows
def test_rows_follow_the_items_of_the_source(database, source):
    for n in range(20):
        source.create_item({"id": f"i{n}", "customerId": f"c{n % 3}", "email": f"e{n}@x", "secret": n})
    index = create(database, source)
    until("Active", lambda: status(index))
    expected = [(f"i{n}", f"c{n % 3}", f"e{n}@x", None) for n in range(20)]
    until(sorted(expected, key=str), lambda: rows(index, "customerId", "email", "secret"))
    # An item that moves in the index, one that is deleted, one that is new, and one without the key.
    source.patch_item("i0", "c0", [{"op": "replace", "path": "/email", "value": "moved@x"}])
    source.delete_item("i1", "c1")
    source.create_item({"id": "new", "customerId": "c9", "email": "new@x"})
    source.upsert_item({"id": "i2", "customerId": "c2"})
    expected = [row for row in expected if row[0] not in ("i0", "i1", "i2")]
    expected += [("i0", "c0", "moved@x", None), ("new", "c9", "new@x", None), ("i2", "c2", None, None)]
    until(sorted(expected, key=str), lambda: rows(index, "customerId", "email", "secret"))
    found = list(index.query_items("SELECT * FROM c", partition_key="moved@x"))
    assert [row["_id"] for row in found] == ["i0"]
    assert index.read_item(found[0]["id"], "moved@x")["customerId"] == "c0"


# check: secondary-index-rows
def test_an_index_has_a_row_for_each_element_of_an_array(database, source):
    definition = "SELECT t AS email, c.customerId FROM c JOIN t IN c.emails WHERE t != 'none'"
    index = create(database, source, definition)
    source.create_item({"id": "1", "customerId": "c", "emails": ["a", "none", "b"]})
    until([("1", "a"), ("1", "b")], lambda: rows(index, "email"))
    source.replace_item("1", {"id": "1", "customerId": "c", "emails": ["b"]})
    until([("1", "b")], lambda: rows(index, "email"))
    source.delete_item("1", "c")
    until([], lambda: rows(index, "email"))


# check: secondary-index-definitions
def test_an_index_is_listed_queried_and_read(database, source):
    index = create(database, source)
    read = index.read()
    assert read["globalSecondaryIndexDefinition"]["sourceCollectionRid"] == source.read()["_rid"]
    assert read["globalSecondaryIndexDefinition"]["definition"] == DEFINITION
    listed = [container for container in database.list_containers() if sourced(container) == source.id]
    query = database.query_containers(f"SELECT * FROM c WHERE c.id = '{index.id}'")
    for containers in (listed, list(query)):
        assert [container["id"] for container in containers] == [index.id]


# check: secondary-index-definitions
def test_a_source_lists_its_indexes_and_changes_its_etag(database, source):
    before = source.read()
    assert "materializedViews" not in before
    index = create(database, source)
    after = source.read()
    assert [view["id"] for view in after["materializedViews"]] == [index.id]
    assert after["_etag"] != before["_etag"]


# check: secondary-index-definitions
def test_a_replace_that_does_not_name_the_definition_keeps_it(database, source):
    index = create(database, source)
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/email/?"}], "excludedPaths": [{"path": "/*"}]}
    database.replace_container(index, PartitionKey("/email"), indexing_policy=policy)
    read = index.read()
    assert sourced(read) == source.id
    assert [path["path"] for path in read["indexingPolicy"]["includedPaths"]] == ["/email/?"]
    refused(400, "defaultTtl", lambda: database.replace_container(index, PartitionKey("/email"), default_ttl=60))


# check: secondary-index-writes
def test_writes_of_an_index_are_refused_by_name(database, source):
    index = create(database, source)
    words = f"'{index.id}' is a global secondary index of '{source.id}': write there"
    item = {"id": "1", "email": "e"}
    key = {"partition_key": "e"}
    for work in (
        lambda: index.create_item(item),
        lambda: index.upsert_item(item),
        lambda: index.replace_item("1", item),
        lambda: index.delete_item("1", **key),
        lambda: index.patch_item("1", patch_operations=[{"op": "set", "path": "/a", "value": 1}], **key),
        lambda: index.delete_all_items_by_partition_key("e"),
    ):
        error = refused(403, words, work)
        assert not error.sub_status
    with pytest.raises(CosmosBatchOperationError) as caught:
        index.execute_item_batch([("create", (item,))], "e")
    assert caught.value.status_code == 403


# check: secondary-index-definitions
def test_a_source_is_deleted_after_its_indexes(database, source):
    index = create(database, source)
    refused(400, index.id, lambda: database.delete_container(source))
    database.delete_container(index)
    assert "materializedViews" not in source.read()


# check: secondary-index-definitions
@pytest.mark.parametrize(
    "definition,status,words",
    [
        ("SELECT c.email FROM c ORDER BY c.email", 400, "ORDER BY"),
        ("SELECT c.email FROM c WHERE c.x = @p", 400, "@p"),
        ("SELECT VALUE c.email FROM c", 400, "rows are objects"),
        ("SELECT c.other FROM c", 400, "/email"),
        ("SELECT c.email, COUNT(1) AS n FROM c GROUP BY c.email", 501, "GROUP BY"),
    ],
)
def test_definitions_that_make_no_index_are_refused(database, source, definition, status, words):
    refused(status, words, lambda: create(database, source, definition))


# check: secondary-index-rows
def test_an_index_of_groups_answers_the_top_ten(database, source):
    orders = "SELECT c.customerId, 'all' AS board, COUNT(1) AS orders FROM c WHERE c.type = 'salesOrder' GROUP BY c.customerId"
    index = GlobalSecondaryIndexDefinition(source_container_id=source.id, definition=orders)
    name = f"top-{uuid.uuid4().hex[:8]}"
    for customer in range(12):
        for n in range(customer + 1):
            source.create_item({"id": f"o{n}", "customerId": f"c{customer}", "type": "salesOrder"})
        source.create_item({"id": "profile", "customerId": f"c{customer}", "type": "customer"})
    top = database.create_container(name, PartitionKey("/board"), global_secondary_index=index)
    query = "SELECT TOP 10 c.customerId, c.orders FROM c WHERE c.board = 'all' ORDER BY c.orders DESC"

    def best():
        return [(row["customerId"], row["orders"]) for row in top.query_items(query, partition_key="all")]

    until([(f"c{customer}", customer + 1) for customer in range(11, 1, -1)], best)
    # The customer with most orders loses all, and has no group any more.
    for n in range(12):
        source.delete_item(f"o{n}", "c11")
    until([(f"c{customer}", customer + 1) for customer in range(10, 0, -1)], best)
    # The ten are right before its last order is gone.
    until([11], lambda: list(top.query_items("SELECT VALUE COUNT(1) FROM c", partition_key="all")))
