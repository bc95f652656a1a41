"""An account over its REST API, and a container with an analytical store, for the tests of this folder."""

import base64
import hashlib
import hmac
import json
import os
import time
import urllib.request
from email.utils import formatdate
from urllib.parse import quote

# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 500


class Account:
    """The requests that the test needs, signed with the account's key."""

    def __init__(self):
        self.endpoint = os.environ["SHARDLAKE_HTTP"].rstrip("/")
        self.key = base64.b64decode(os.environ["SHARDLAKE_KEY"])

    def send(self, method, kind, link, body=None, *, feed="", query="", **headers):
        """A request for the resource `link`, or for its feed."""
        date = formatdate(usegmt=True)
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.new(self.key, text.encode(), hashlib.sha256).digest()).decode()
        token = quote(f"type=master&ver=1.0&sig={signature}", safe="")
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {"authorization": token, "x-ms-date": date, "x-ms-version": "2020-07-15", "content-type": "application/json"}
        # Paths of the operator are signed as they are sent; their names are escaped already.
        path = link if kind == "shardlake" else "/".join(part for part in (quote(link), feed) if part)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.endpoint}/{path}{query}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            text = answer.read()
            return json.loads(text) if text else None, answer.headers


class Container:
    """A container with an analytical store."""

    def __init__(self, account, database, name, settings=(), **more):
        self.account, self.link = account, f"dbs/{database}/colls/{name}"
        definition = {"id": name, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, "analyticalStorageTtl": -1} | more
        account.send("POST", "colls", f"dbs/{database}", definition, feed="colls")
        self.operate("PUT", "", {"lagSeconds": 1} | dict(settings))

    def upsert(self, item):
        """The item as it is stored."""
        key = {"x_ms_documentdb_partitionkey": json.dumps([item["pk"]]), "x_ms_documentdb_is_upsert": "true"}
        return self.account.send("POST", "docs", self.link, item, feed="docs", **key)[0]

    def delete(self, item):
        key = {"x_ms_documentdb_partitionkey": json.dumps([item["pk"]])}
        self.account.send("DELETE", "docs", f"{self.link}/docs/{item['id']}", **key)

    def batch(self, pk, operations):
        """The results of a transaction, each with its status; none of it is done where one failed."""
        headers = {f"x_ms_cosmos_{name}": "true" for name in ["is_batch_request", "batch_atomic", "batch_ordered"]}
        key = json.dumps([pk])
        return self.account.send("POST", "docs", self.link, operations, feed="docs", x_ms_documentdb_partitionkey=key, **headers)[0]

    def items(self):
        """All items, from the feed of the container."""
        items, continuation = [], {}
        while True:
            page, headers = self.account.send("GET", "docs", self.link, feed="docs", x_ms_max_item_count="50", **continuation)
            items += page["Documents"]
            if not headers.get("x-ms-continuation"):
                return items
            continuation = {"x_ms_continuation": headers["x-ms-continuation"]}

    def operate(self, method, rest="", body=None, query=""):
        return self.administer(method, f"analytics{rest}", body, query)

    def administer(self, method, rest, body=None, query=""):
        database, name = (quote(part, safe="") for part in self.link.split("/")[1::2])
        link = f"_shardlake/v1/dbs/{database}/colls/{name}/{rest}"
        return self.account.send(method, "shardlake", link, body, query=query)[0]

    def partitions(self):
        return self.administer("GET", "partitions")

    def relocate(self, rest, body=None):
        """A split or a merge, to its end."""
        before = self.partitions()["generation"]
        self.administer("POST", f"partitions/{rest}", body)
        end = time.monotonic() + HANG_SECONDS
        while True:
            report = self.partitions()
            if report["generation"] > before and not report.get("relocation"):
                return
            assert time.monotonic() < end, f"{rest} does not end"
            time.sleep(0.02)

    def followed(self):
        """The report of a table that has every change."""
        return self.until(lambda report: report["state"] == "following" and report["lag"]["changes"] == 0)

    def compact(self, purge=True):
        return self.ordered("/compact", f"?purge={json.dumps(purge)}")

    def verify(self):
        return self.ordered("/verify")

    def ordered(self, rest, query=""):
        """The report with the outcome of an order."""
        order = self.operate("POST", rest, query=query)["order"]
        return self.until(lambda report: any(done["number"] >= order for done in report["orders"]))

    def until(self, is_reached):
        end = time.monotonic() + HANG_SECONDS
        while True:
            report = self.operate("GET")
            if is_reached(report):
                return report
            assert report["state"] != "failed" and time.monotonic() < end, report
            time.sleep(0.05)
