"""Runs every access pattern of the web store through the azure-cosmos package and checks the answers.

Arguments: the endpoint, the key, and a file with the data set as `shardlake demo webstore --print` writes it.
"""

import json
import sys
import time

from azure.cosmos import CosmosClient

endpoint, key, data_set = sys.argv[1:4]
with open(data_set, encoding="utf-8") as file:
    containers = {c["id"]: c["items"] for c in json.load(file)["databases"][0]["containers"]}
customers = [i for i in containers["customer"] if i["type"] == "customer"]
orders = [i for i in containers["customer"] if i["type"] == "salesOrder"]
store = CosmosClient(endpoint, key).get_database_client("webstore")
failures = 0


def plain(item):
    return {k: v for k, v in item.items() if not k.startswith("_")} if isinstance(item, dict) else item


def check(name, container, partition_key, expected, *, read=None, query=None, parameters=None, ordered=False):
    """One pattern: what it asks, what came back and at what price."""
    global failures
    client, seen = store.get_container_client(container), []

    def note(response):
        headers = response.http_response.headers
        # A query plan reads nothing.
        if "x-ms-documentdb-partitionkeyrangeid" in headers:
            seen.append((headers["x-ms-documentdb-partitionkeyrangeid"], float(headers["x-ms-request-charge"])))

    def run():
        if read:
            return [client.read_item(read, partition_key, raw_response_hook=note)]
        scope = {"partition_key": partition_key} if partition_key else {"enable_cross_partition_query": True}
        return list(client.query_items(query, parameters=parameters, raw_response_hook=note, **scope))

    run()
    seen.clear()
    started = time.perf_counter()
    rows = [plain(row) for row in run()]
    milliseconds = (time.perf_counter() - started) * 1000
    order = (lambda rows: rows) if ordered else (lambda rows: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)))
    right = order(rows) == order(expected)
    failures += not right
    partitions, charge = len({p for p, _ in seen}), sum(c for _, c in seen)
    print(f"{'ok   ' if right else 'WRONG'} {name}")
    print(f"      {query or 'point read'}{'' if partition_key is None else '   [partition key: ' + partition_key + ']'}")
    print(f"      {len(rows)} rows, {partitions} partition{'' if partitions == 1 else 's'}, {charge:.2f} RU, {milliseconds:.1f} ms")
    if not right:
        print(f"      expected {len(expected)} rows: {json.dumps(expected)[:300]}")
        print(f"      found: {json.dumps(rows)[:300]}")


busiest = max(customers, key=lambda c: c["salesOrderCount"])
person = busiest["id"]
category = containers["product"][0]["categoryId"]
check("customer by id", "customer", person, [busiest], read=person)
check(
    "customer with orders", "customer", person,
    [i for i in containers["customer"] if i["customerId"] == person],
    query="SELECT * FROM c WHERE c.customerId = @id", parameters=[{"name": "@id", "value": person}],
)
check(
    "orders of a customer, newest first", "customer", person,
    sorted((o["orderDate"] for o in orders if o["customerId"] == person), reverse=True),
    query="SELECT VALUE c.orderDate FROM c WHERE c.type = 'salesOrder' ORDER BY c.orderDate DESC", ordered=True,
)
for kind in ("category", "tag"):
    check(
        {"category": "product categories", "tag": "product tags"}[kind], "productMeta", kind,
        [i for i in containers["productMeta"] if i["type"] == kind],
        query=f"SELECT * FROM c WHERE c.type = '{kind}'",
    )
check(
    "products of a category", "product", category,
    [i for i in containers["product"] if i["categoryId"] == category],
    query="SELECT * FROM c WHERE c.categoryId = @id", parameters=[{"name": "@id", "value": category}],
)
check(
    "top 10 customers by number of orders", "customer", None,
    sorted((c["salesOrderCount"] for c in customers), reverse=True)[:10],
    query="SELECT TOP 10 VALUE c.salesOrderCount FROM c WHERE c.type = 'customer' ORDER BY c.salesOrderCount DESC",
    ordered=True,
)
print("every answer is right" if failures == 0 else f"{failures} answers are wrong")
sys.exit(1 if failures else 0)
