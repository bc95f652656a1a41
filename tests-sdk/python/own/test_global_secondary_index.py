"""Global secondary indexes through the SDK: definitions, the list of a source, order of deletions, refused writes."""

import uuid

import pytest
from azure.cosmos import GlobalSecondaryIndexDefinition, PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

DEFINITION = "SELECT c.customerId, c.email FROM c"


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
