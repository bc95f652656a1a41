"""Runs every access pattern of the web store through the azure-cosmos package and checks the answers; then renames what
is copied and places orders all at once, and checks that the store is still true.

Where the server has SQL over its tables, six joins across the containers are compared with the items that the access patterns
return.

Arguments: the endpoint, the key, and a file with the data set as `shardlake demo webstore --print` writes it.
"""

import base64
import email.utils
import hashlib
import hmac
import json
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections import Counter

from azure.cosmos import CosmosClient, exceptions

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


def tell(name, right, words):
    global failures
    failures += not right
    print(f"{'ok   ' if right else 'WRONG'} {name}\n      {words}")


def rename(kind, copies_of):
    """Renames a category or tag, and waits for the projection to have the copies follow."""
    meta, products = store.get_container_client("productMeta"), store.get_container_client("product")
    counted = {i["id"]: len(copies_of(i["id"])) for i in containers["productMeta"] if i["type"] == kind}
    item = meta.read_item(max(counted, key=counted.get), kind)
    item["name"] = f"{item['name']}, renamed"
    expected = copies_of(item["id"])
    started = time.perf_counter()
    meta.replace_item(item["id"], item)
    while True:
        found = {p["id"]: p for p in products.query_items("SELECT * FROM c", enable_cross_partition_query=True)}
        names = [name for copy in expected for name in copy(found)]
        wrong = sum(name != item["name"] for name in names)
        seconds = time.perf_counter() - started
        if wrong == 0 or seconds > 30:
            break
        time.sleep(0.02)
    tell(
        f"a renamed {kind} reaches all its products", wrong == 0 and len(names) > 0,
        f"{len(names)} copies, {wrong} of them wrong after {seconds * 1000:.0f} ms: \"{item['name']}\"",
    )


def copies_of_category(category):
    mine = [p["id"] for p in containers["product"] if p["categoryId"] == category]
    return [lambda found, id=id: [found[id]["categoryName"]] for id in mine]


def copies_of_tag(tag):
    mine = [p["id"] for p in containers["product"] if any(t["id"] == tag for t in p["tags"])]
    return [lambda found, id=id: [t["name"] for t in found[id]["tags"] if t["id"] == tag] for id in mine]


def order(customer, quantity=1):
    details = [{"sku": "CHECK-1", "name": "a check", "price": 1.5, "quantity": quantity}]
    return {
        "id": str(uuid.uuid4()), "type": "salesOrder", "customerId": customer,
        "orderDate": "2026-01-01T00:00:00", "shipDate": "2026-01-02T00:00:00", "details": details,
    }


def place(customer, item):
    scripts = store.get_container_client("customer").scripts
    return scripts.execute_stored_procedure("placeOrder", partition_key=customer, params=[item])


def of_customer(customer):
    query = "SELECT * FROM c WHERE c.customerId = @id"
    client = store.get_container_client("customer")
    return list(client.query_items(query, parameters=[{"name": "@id", "value": customer}], partition_key=customer))


def refused(customer, item):
    try:
        place(customer, item)
        return False
    except exceptions.CosmosHttpResponseError as error:
        return error.status_code == 400


rename("category", copies_of_category)
rename("tag", copies_of_tag)

EACH, THREADS = 5, 8
busy = sorted(customers, key=lambda c: c["salesOrderCount"], reverse=True)[:3]
problems = []


def buyer():
    try:
        for _ in range(EACH):
            for customer in busy:
                placed = order(customer["id"])
                # Whoever is not sure repeats the call.
                for _ in range(2):
                    place(customer["id"], placed)
    except Exception as error:
        problems.append(error)


threads = [threading.Thread(target=buyer) for _ in range(THREADS)]
started = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
seconds = time.perf_counter() - started
counts = {c["id"]: c["salesOrderCount"] + (EACH * THREADS if c in busy else 0) for c in customers}
tops = list(store.get_container_client("customer").query_items(
    "SELECT TOP 10 VALUE c.salesOrderCount FROM c WHERE c.type = 'customer' ORDER BY c.salesOrderCount DESC",
    enable_cross_partition_query=True,
))
lists = {c["id"]: sum(i["type"] == "salesOrder" for i in of_customer(c["id"])) for c in busy}
tell(
    "top customers are right after orders placed all at once",
    not problems and tops == sorted(counts.values(), reverse=True)[:10] and all(lists[id] == counts[id] for id in lists),
    f"{EACH * THREADS * len(busy)} orders, each placed twice, in {seconds:.2f} s; counts {tops[:3]}, orders {sorted(lists.values())[::-1]}"
    + "".join(f"; {problem}" for problem in problems[:1]),
)

nobody = str(uuid.uuid4())
before = of_customer(busy[0]["id"])
failed = refused(nobody, order(nobody)) and refused(busy[0]["id"], order(busy[0]["id"], quantity=0))
after = of_customer(busy[0]["id"])
tell(
    "an order that fails leaves nothing", failed and of_customer(nobody) == [] and after == before,
    "one of nobody, and one without a quantity that was found out after it was written and counted",
)


class WithoutSql(Exception):
    """SQL over tables is not in this build, or switched off."""


def analyse(query):
    """A query over the tables of all containers, at a version that has everything that was acknowledged before."""
    path = "_shardlake/v1/analytics/sql"
    date = email.utils.formatdate(usegmt=True)
    payload = f"post\nshardlake\n{path}\n{date.lower()}\n\n"
    signature = base64.b64encode(hmac.new(base64.b64decode(key), payload.encode(), hashlib.sha256).digest()).decode()
    headers = {
        "authorization": urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe=""), "x-ms-date": date,
        "content-type": "application/json", "accept": "application/json",
    }
    body = json.dumps({"query": query, "database": "webstore", "atLeast": "now"}).encode()
    request = urllib.request.Request(endpoint.rstrip("/") + "/" + path, body, headers, method="POST")
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            words = error.read().decode()
            if error.code == 501:
                raise WithoutSql(json.loads(words).get("message", words)) from None
            if error.code != 503 or time.monotonic() > end:
                raise RuntimeError(f"{error.code}: {words}") from None
            time.sleep(0.2)


def every(container, where=""):
    """All items of a container, by the pattern that asks every partition, and their charge."""
    charges = []

    def note(response):
        charges.append(float(response.http_response.headers.get("x-ms-request-charge", 0)))

    items = list(store.get_container_client(container).query_items(
        f"SELECT * FROM c {where}", enable_cross_partition_query=True, raw_response_hook=note,
    ))
    return items, sum(charges)


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))
    return one == other


def join(name, query, expected, charge):
    """Compares the rows of a join with those made of the items."""
    answer = analyse(query)
    found, expected = sorted(answer["rows"]), sorted(map(list, expected))
    right = len(found) == len(expected) and all(
        len(row) == len(wanted) and all(map(same, row, wanted)) for row, wanted in zip(found, expected)
    )
    tell(name, right, f"{len(found)} rows, 0 RU; the same from items cost {charge:.2f} RU\n      {' '.join(query.split())}")
    if not right:
        print(f"      expected: {json.dumps(expected)[:300]}\n      found: {json.dumps(found)[:300]}")


def joins():
    buyers, c1 = every("customer", "WHERE c.type = 'customer'")
    bought, c2 = every("customer", "WHERE c.type = 'salesOrder'")
    goods, c3 = every("product")
    names, c4 = every("productMeta")
    of_sku = {p["sku"]: p for p in goods}
    of_id = {b["id"]: b for b in buyers}
    lines = [(o, d) for o in bought for d in o["details"]]
    sold = "(SELECT \"customerId\", unnest(details) AS line FROM customer WHERE type = 'salesOrder') d"
    amount = "sum(d.line['price'] * d.line['quantity'])"

    count = Counter(of_sku[d["sku"]]["categoryName"] for _, d in lines if d["sku"] in of_sku)
    join("lines sold in each category", f"""
        SELECT p."categoryName", count(*) AS n FROM {sold} JOIN product p ON p.sku = d.line['sku'] GROUP BY p."categoryName"
        """, count.items(), c2 + c3)
    revenue = Counter()
    for o, d in lines:
        revenue[of_id[o["customerId"]]["addresses"][0]["country"]] += d["price"] * d["quantity"]
    join("revenue of each country", f"""
        SELECT c.addresses[1]['country'], {amount} FROM {sold} JOIN customer c ON c.id = d."customerId" AND c.type = 'customer'
        GROUP BY 1
        """, revenue.items(), c1 + c2)
    placed = Counter(o["customerId"] for o in bought)
    join("customers whose count differs from their orders", """
        SELECT c.id, c."salesOrderCount", count(o.id) FROM customer c
        LEFT JOIN customer o ON o."customerId" = c.id AND o.type = 'salesOrder'
        WHERE c.type = 'customer' GROUP BY c.id, c."salesOrderCount" HAVING c."salesOrderCount" <> count(o.id)
        """, [(b["id"], b["salesOrderCount"], placed[b["id"]]) for b in buyers if b["salesOrderCount"] != placed[b["id"]]], c1 + c2)
    categories = {m["id"]: m["name"] for m in names if m["type"] == "category"}
    join("products of each category, by the category's own name", """
        SELECT m.name, count(*) FROM product p JOIN "productMeta" m ON m.id = p."categoryId" AND m.type = 'category'
        WHERE p."categoryName" = m.name GROUP BY m.name
        """, Counter(categories[p["categoryId"]] for p in goods).items(), c3 + c4)
    tags = {m["id"]: m["name"] for m in names if m["type"] == "tag"}
    join("products of each tag, by the tag's own name", """
        SELECT m.name, count(*) FROM (SELECT unnest(tags) AS tag FROM product) p
        JOIN "productMeta" m ON m.id = p.tag['id'] AND m.type = 'tag' WHERE p.tag['name'] = m.name GROUP BY m.name
        """, Counter(tags[t["id"]] for p in goods for t in p["tags"]).items(), c3 + c4)
    cells = Counter()
    for o, d in lines:
        if d["sku"] in of_sku:
            cells[of_id[o["customerId"]]["addresses"][0]["country"], of_sku[d["sku"]]["categoryName"]] += d["price"] * d["quantity"]
    join("revenue by country and category, over three tables", f"""
        SELECT c.addresses[1]['country'], m.name, {amount} FROM {sold}
        JOIN customer c ON c.id = d."customerId" AND c.type = 'customer' JOIN product p ON p.sku = d.line['sku']
        JOIN "productMeta" m ON m.id = p."categoryId" AND m.type = 'category' GROUP BY 1, 2
        """, [(*cell, value) for cell, value in cells.items()], c1 + c2 + c3 + c4)


try:
    joins()
except WithoutSql as reason:
    print(f"left out: six joins over tables: {reason}")
print("every answer is right" if failures == 0 else f"{failures} answers are wrong")
sys.exit(1 if failures else 0)
