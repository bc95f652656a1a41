"""Runs 5 queries over events and 12 over a web store at a server and in DuckDB over the same tables, and compares the rows.

    sql_against_duckdb.py ENDPOINT ROOT [--customers N] [--events N] [--rounds N] [--updates]

ROOT is the server's folder of tables. The script loads the data, unless the database is there. Rows must be equal; doubles may differ by 1e-12 of their size.
It prints processor time of both, the median of the rounds, and the geometric mean of the ratios: to be judged with a release build alone.
With --updates a tenth of the items is written again first, so that the tables have deletion vectors.
"""

import argparse
import base64
import datetime
import hashlib
import hmac
import json
import math
import pathlib
import random
import resource
import statistics
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
DATABASE = "speed"

QUERIES = {
    "J1": "SELECT e.op['collection'] AS event, count(*) AS n FROM {events} e GROUP BY 1 ORDER BY 2 DESC, 1",
    "J2": "SELECT e.op['collection'] AS event, count(*) AS n, count(DISTINCT e.did) AS users FROM {events} e WHERE e.kind = 'commit' AND e.op['operation'] = 'create' GROUP BY 1 ORDER BY 2 DESC, 1",
    "J3": "SELECT e.op['collection'] AS event, CAST(floor(e.time_us / 3600000000.0) AS BIGINT) % 24 AS hour, count(*) AS n FROM {events} e WHERE e.kind = 'commit' AND e.op['collection'] IN ('post', 'repost', 'like') GROUP BY 1, 2 ORDER BY 2, 1",
    "J4": "SELECT e.did, min(e.time_us) AS first FROM {events} e WHERE e.op['collection'] = 'post' GROUP BY 1 ORDER BY 2, 1 LIMIT 3",
    "J5": "SELECT e.did, max(e.time_us) - min(e.time_us) AS span FROM {events} e WHERE e.op['operation'] = 'create' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
    "W1": "SELECT substr(o.\"orderDate\", 1, 7) AS month, count(*) AS n, sum(o.total) AS total FROM {orders} o GROUP BY 1 ORDER BY 1",
    "W2": "SELECT x.line['sku'] AS sku, sum(x.line['quantity']) AS n FROM (SELECT unnest(o.lines) AS line FROM {orders} o) x GROUP BY 1 ORDER BY 2 DESC, 1",
    "W3": "SELECT p.category, sum(x.line['quantity'] * p.price) AS value FROM (SELECT unnest(o.lines) AS line FROM {orders} o) x JOIN {products} p ON p.sku = x.line['sku'] GROUP BY 1 ORDER BY 1",
    "W4": "SELECT count(*) AS n FROM {orders} a JOIN {orders} b ON a.\"customerId\" = b.\"customerId\" WHERE a.id < b.id",
    "W5": "SELECT y.id, y.r FROM (SELECT o.id, rank() OVER (PARTITION BY o.\"customerId\" ORDER BY o.total DESC) AS r FROM {orders} o) y WHERE y.r <= 2 ORDER BY 1",
    "W6": "SELECT o.id, o.total FROM {orders} o WHERE o.\"customerId\" = 'c7' ORDER BY 1",
    "W7": "SELECT c.address['city'] AS city, count(*) AS n, sum(o.total) AS total FROM {customers} c JOIN {orders} o ON o.\"customerId\" = c.id GROUP BY 1 ORDER BY 1",
    "W8": "SELECT c.id FROM {customers} c LEFT JOIN {orders} o ON o.\"customerId\" = c.id WHERE o.id IS NULL ORDER BY 1",
    "W9": "SELECT c.id, sum(o.total) AS total FROM {customers} c JOIN {orders} o ON o.\"customerId\" = c.id GROUP BY c.id ORDER BY 2 DESC, 1 LIMIT 10",
    "W10": "SELECT p.category, count(DISTINCT x.customer) AS n FROM (SELECT o.\"customerId\" AS customer, unnest(o.lines) AS line FROM {orders} o) x JOIN {products} p ON p.sku = x.line['sku'] GROUP BY 1 ORDER BY 1",
    "W11": "SELECT c.address['city'] AS city, p.category, sum(x.line['quantity']) AS n FROM (SELECT o.\"customerId\" AS customer, unnest(o.lines) AS line FROM {orders} o) x JOIN {products} p ON p.sku = x.line['sku'] JOIN {customers} c ON c.id = x.customer GROUP BY 1, 2 ORDER BY 1, 2",
    "W12": "SELECT c.id FROM {customers} c WHERE EXISTS (SELECT 1 FROM {orders} o WHERE o.\"customerId\" = c.id AND o.total > 400) AND c.vip ORDER BY 1",
}
TABLES = ["events", "customers", "orders", "products"]


class Server:
    def __init__(self, endpoint):
        self.endpoint = endpoint

    def send(self, method, path, kind, link, body=None, headers=()):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        token = urllib.parse.quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe="")
        request = urllib.request.Request(self.endpoint + path, method=method, data=None if body is None else json.dumps(body).encode())
        for name, value in [("authorization", token), ("x-ms-date", date), ("x-ms-version", "2020-07-15"), *headers]:
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=700) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def sql(self, statement, **members):
        path = "_shardlake/v1/analytics/sql"
        body = {"query": statement, "database": DATABASE, "timeoutSeconds": 600, **members}
        status, text = self.send("POST", "/" + path, "shardlake", path, body)
        if status != 200:
            raise SystemExit(f"{statement}: {status} {text.decode()}")
        return json.loads(text)

    def put(self, container, item):
        link = f"dbs/{DATABASE}/colls/{container}"
        headers = [("x-ms-documentdb-is-upsert", "true"), ("x-ms-documentdb-partitionkey", json.dumps([item["id"]]))]
        status, text = self.send("POST", f"/{link}/docs", "docs", link, item, headers)
        if status not in (200, 201):
            raise SystemExit(f"{item['id']}: {status} {text.decode()}")


def data(customers, events):
    chosen = random.Random(7)
    products = [{"id": f"p{n}", "sku": f"sku{n}", "category": f"cat{n % 9}", "price": chosen.randrange(100, 9999) / 100} for n in range(200)]
    people = [
        {"id": f"c{n}", "name": f"name {n}", "vip": n % 7 == 0, "address": {"city": f"city{n % 40}", "zip": str(10000 + n)}}
        for n in range(customers)
    ]
    orders = [
        {
            "id": f"o{n}",
            "customerId": f"c{chosen.randrange(customers)}",
            "orderDate": f"2026-{chosen.randrange(1, 13):02}-{chosen.randrange(1, 29):02}T10:00:00Z",
            "total": chosen.randrange(1, 1000) / 2,
            "lines": [{"sku": f"sku{chosen.randrange(200)}", "quantity": chosen.randrange(1, 5)} for _ in range(chosen.randrange(0, 4))],
        }
        for n in range(customers * 3)
    ]
    happened = [
        {
            "id": f"e{n}",
            "did": f"did{chosen.randrange(max(events // 10, 1))}",
            "time_us": 1_700_000_000_000_000 + chosen.randrange(86_400_000_000),
            "kind": chosen.choice(["commit", "commit", "commit", "identity"]),
            "op": {"operation": chosen.choice(["create", "create", "delete"]), "collection": chosen.choice(["post", "repost", "like", "follow"])},
        }
        for n in range(events)
    ]
    return {"products": products, "customers": people, "orders": orders, "events": happened}


def load(server, customers, events, updates):
    status, _ = server.send("POST", "/dbs", "dbs", "", {"id": DATABASE})
    items = data(customers, events)
    if status == 201:
        for container in TABLES:
            definition = {"id": container, "partitionKey": {"paths": ["/id"], "kind": "Hash", "version": 2}, "analyticalStorageTtl": -1}
            server.send("POST", f"/dbs/{DATABASE}/colls", "colls", f"dbs/{DATABASE}", definition)
        write_all(server, items)
        server.sql("SELECT 1", atLeast="now")
    if updates:
        for container in TABLES:
            server.sql(f"SELECT count(*) FROM {container}", atLeast="now")
        write_all(server, {container: of[::10] for container, of in items.items()})


def write_all(server, items):
    work = [(container, item) for container, of in items.items() for item in of]
    threads = [threading.Thread(target=lambda part: [server.put(*one) for one in part], args=(work[at::8],)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def connected():
    import duckdb
    import duckdb_extension_delta

    folder = pathlib.Path(duckdb_extension_delta.__file__).parent
    extension = next(folder.rglob("*.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return connection


def same(ours, theirs):
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-12)
    return ours == theirs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("root")
    parser.add_argument("--customers", type=int, default=300)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--updates", action="store_true")
    asked = parser.parse_args()
    server = Server(asked.endpoint)
    load(server, asked.customers, asked.events, asked.updates)
    for table in TABLES:
        server.sql(f"SELECT count(*) FROM {table}", atLeast="now")
    duckdb = connected()
    duckdb.execute("SET threads = 2")
    wrong, ratios = 0, []
    print(f"1..{len(QUERIES)}")
    for number, (name, query) in enumerate(QUERIES.items(), 1):
        scans = {table: f"delta_scan('{asked.root}/{DATABASE}/{table}')" for table in TABLES}
        ours_ms, theirs_ms = [], []
        for _ in range(asked.rounds):
            answer = server.sql(query.format(**{table: table for table in TABLES}))
            ours_ms.append(answer["statistics"]["cpuMs"])
            before = resource.getrusage(resource.RUSAGE_SELF)
            theirs = [list(row) for row in duckdb.execute(query.format(**scans)).fetchall()]
            after = resource.getrusage(resource.RUSAGE_SELF)
            theirs_ms.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        rows = answer["rows"]
        is_same = len(rows) == len(theirs) and all(
            len(a) == len(b) and all(same(x, y) for x, y in zip(a, b)) for a, b in zip(rows, theirs)
        )
        wrong += not is_same
        ratio = (statistics.median(ours_ms) + 1) / (statistics.median(theirs_ms) + 1)
        ratios.append(ratio)
        print(f"{'ok' if is_same else 'not ok'} {number} {name}: {len(rows)} rows, {statistics.median(ours_ms):.0f} ms to {statistics.median(theirs_ms):.0f} ms")
        if not is_same:
            print(f"# {rows[:5]} and {theirs[:5]}")
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    print(f"# geometric mean of the ratios {mean:.2f}, the greatest {max(ratios):.2f}")
    sys.exit(1 if wrong else 0)


main()
