"""The page of metrics, read by the parser of OpenMetrics that Prometheus' own Python client has. It refuses every deviation."""

import os
import urllib.request

from azure.cosmos import CosmosClient, PartitionKey
from prometheus_client.openmetrics import parser

ENDPOINT, KEY = os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"]


def test_the_page_is_openmetrics_and_counts_what_the_sdk_does():
    client = CosmosClient(ENDPOINT, KEY)
    name = "metrics-of-the-sdk"
    database = client.create_database(name)
    try:
        container = database.create_container(id="c", partition_key=PartitionKey(path="/pk"))
        container.upsert_item({"id": "1", "pk": "a"})
        list(container.query_items("SELECT * FROM c", partition_key="a"))
        container.execute_item_batch([("create", ({"id": "2", "pk": "a"},))], partition_key="a")
        families = scrape()
    finally:
        client.delete_database(database)
    requests = families["shardlake_requests"].samples
    counted = {sample.labels["operation"] for sample in requests if sample.value > 0}
    assert {"UpsertItem", "QueryItems", "Batch", "CreateContainer"} <= counted
    for family in families.values():
        assert family.documentation and family.type in ("counter", "gauge", "histogram", "info"), family
        if family.unit:
            assert family.name.endswith(f"_{family.unit}"), family.name


def scrape():
    with urllib.request.urlopen(f"{ENDPOINT.rstrip('/')}/metrics", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    return {family.name: family for family in parser.text_string_to_metric_families(text)}
