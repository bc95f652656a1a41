"""The page of metrics, read by the parser of OpenMetrics that Prometheus' own Python client has, which refuses every deviation; and the
alert rules and the dashboard of `deploy/`, read by a parser of PromQL. That their metrics exist is tested in `crates/server/tests/it/metrics.rs`."""

import json
import os
import pathlib
import urllib.request

import promql_parser
import yaml
from azure.cosmos import CosmosClient, PartitionKey
from prometheus_client.openmetrics import parser

ENDPOINT, KEY = os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"]
DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy"


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


def rules():
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_an_expression_a_severity_and_a_summary():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 15
    for rule in rules():
        promql_parser.parse(rule["expr"])
        assert rule["labels"]["severity"] in ("warning", "critical"), rule
        assert rule["annotations"]["summary"], rule


def test_every_panel_has_an_expression_that_is_promql():
    dashboard = json.loads((DEPLOY / "grafana" / "shardlake.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    expressions = [target["expr"] for target in targets + dashboard["annotations"]["list"]]
    assert len(expressions) >= 20
    for expression in expressions:
        # Grafana replaces its variables before it asks.
        promql_parser.parse(expression.replace("$__rate_interval", "5m").replace("$instance", ".+"))
