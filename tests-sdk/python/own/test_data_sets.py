"""Loads data sets through the SDK over plain HTTP and over TLS, and reads them back equal: our own, and published ones where they are.

Point reads and feeds only: the equality is of whole items, numbers and key order included, apart from the properties the server adds.
"""

import json

import pytest
from azure.cosmos import PartitionKey, exceptions
from azure.cosmos.partition_key import NonePartitionKeyValue

SYSTEM = {"_rid", "_self", "_etag", "_attachments", "_ts"}


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8-sig"))


def without_system_properties(item):
    return {name: value for name, value in item.items() if name not in SYSTEM}


def shown(value):
    """Whole numbers have no fraction in answers."""
    if isinstance(value, dict):
        return {name: shown(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shown(element) for element in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def text(item):
    """The item as JSON text: equal only if values, number spellings and the order of keys are."""
    return json.dumps(without_system_properties(item), ensure_ascii=False)


def check_round_trip(database, name, key_path, items):
    container = database.create_container(name, PartitionKey(path=key_path), offer_throughput=12000)

    def key_of(item):
        return item.get(key_path.strip("/"), NonePartitionKeyValue)

    written = {(key_of(item), item["id"]): text(shown(item)) for item in items}
    assert len(written) == len(items), "ids are unique within a partition key"
    for item in items:
        created = container.create_item(item)
        assert text(created) == text(shown(item))
        assert SYSTEM <= set(created)

    for (key, id), expected in written.items():
        assert text(container.read_item(id, partition_key=key)) == expected

    found = {(key_of(item), item["id"]): text(item) for item in container.read_all_items(max_item_count=100)}
    assert found == written

    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item(items[0])


@pytest.mark.parametrize("name, key_path", [("stock", "/category"), ("lakes", "/Country")])
def test_own_data(database, own_data, name, key_path):
    check_round_trip(database, name, key_path, read_json(own_data / f"{name}.json"))


def test_products_in_final_form(database, data):
    check_round_trip(database, "product", "/categoryId", read_json(data / "cosmicworks" / "v4-product.json"))


def test_product_meta_in_final_form(database, data):
    check_round_trip(database, "productMeta", "/type", read_json(data / "cosmicworks" / "v4-productMeta.json"))


@pytest.mark.parametrize("table", ["product", "productCategory", "productTag", "productTags"])
def test_relational_tables(database, data, table):
    rows = read_json(data / "cosmicworks" / f"v1-{table}.json")
    check_round_trip(database, f"table-{table}", "/id", rows)


def test_volcanoes(database, data):
    check_round_trip(database, "volcanoes", "/Country", read_json(data / "volcanoes.json"))
