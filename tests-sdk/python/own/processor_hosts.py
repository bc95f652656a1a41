"""Hosts of .NET's change feed processor, which is also the Azure Functions trigger, as requests: each host makes the requests that the
processor's public source makes, in that order. A host does one step at a time and reads a clock of the test, so a test decides the order
of everything.

Leases are items of a container with the key `/id`: `{prefix}.info` records that there is one for each range, `{prefix}.lock` is held while
they are made, and `{prefix}..{token}` is a lease. The token of a range of the service is its id; after a merge a lease stays
for its part of the hash space, and its token is that part.
"""

import base64
import email.utils
import hashlib
import hmac
import json
import os
import urllib.parse

import requests

HANG_SECONDS = 500
RETRIES = 5
# In time of the test.
LEASE_SECONDS = 60
GONE = {("410", "1002"), ("410", "1007"), ("410", "1000")}


class Service:
    """Requests, signed with the account's key."""

    def __init__(self, database, monitored, leases):
        self.session = requests.Session()
        self.monitored, self.leases = f"dbs/{database}/colls/{monitored}", f"dbs/{database}/colls/{leases}"
        self.tokens = {}

    def send(self, method, path, kind, link, body=None, **headers):
        date = email.utils.formatdate(usegmt=True)
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        digest = hmac.new(base64.b64decode(os.environ["SHARDLAKE_KEY"]), text.encode(), hashlib.sha256).digest()
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        sent |= {
            "authorization": urllib.parse.quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe=""),
            "x-ms-date": date,
            "x-ms-version": "2020-07-15",
            "x-ms-cosmos-sdk-supportedcapabilities": "9",
        }
        address = os.environ["SHARDLAKE_HTTP"] + urllib.parse.quote(path)
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        return self.session.request(method, address, headers=sent, data=data, timeout=HANG_SECONDS)

    def item(self, method, name, body=None, **headers):
        """A request about a lease item."""
        collection = f"{self.leases}/docs"
        key = json.dumps([name])
        if method == "POST":
            return self.send(method, collection, "docs", self.leases, body, x_ms_documentdb_partitionkey=key, **headers)
        path = f"{collection}/{name}"
        return self.send(method, path, "docs", path, body, x_ms_documentdb_partitionkey=key, **headers)

    def query_leases(self, prefix):
        text = {"query": f"SELECT * FROM c WHERE STARTSWITH(c.id, '{prefix}..')"}
        path, form = f"{self.leases}/docs", "application/query+json"
        plan = self.send(
            "POST", path, "docs", self.leases, text, content_type=form, x_ms_cosmos_is_query_plan_request="True",
            x_ms_cosmos_query_version="1.0",
            x_ms_cosmos_supported_query_features="Aggregate, Distinct, GroupBy, OrderBy, OffsetAndLimit, Top",
        )  # fmt: skip
        assert plan.status_code == 200, plan.text
        found = []
        for range_id in [entry["id"] for entry in self.ranges(self.leases)]:
            answer = self.send(
                "POST", path, "docs", self.leases, text, content_type=form, x_ms_documentdb_isquery="True",
                x_ms_documentdb_partitionkeyrangeid=range_id, x_ms_max_item_count="1000",
                x_ms_documentdb_query_enablecrosspartition="True",
            )  # fmt: skip
            assert answer.status_code == 200, answer.text
            found += answer.json()["Documents"]
        return found

    def ranges(self, container):
        path, etag, found = f"{container}/pkranges", None, []
        while True:
            answer = self.send(
                "GET", path, "pkranges", container, a_im="Incremental Feed", x_ms_max_item_count="-1", if_none_match=etag
            )
            if answer.status_code == 304:
                gone = {parent for entry in found for parent in entry.get("parents", [])}
                return [entry for entry in found if entry["id"] not in gone]
            assert answer.status_code == 200, answer.text
            etag = answer.headers["etag"]
            found += answer.json()["PartitionKeyRanges"]

    def changes(self, lease, page):
        """One page of the range of a lease: its items and where the next begins, or `None` where the range is no longer that of one partition."""
        part = lease["FeedRange"]["Range"]
        headers = {"x_ms_documentdb_partitionkeyrangeid": lease["LeaseToken"]}
        if lease.get("isPart"):
            owner = next((r["id"] for r in self.ranges(self.monitored) if contains(r, part)), None)
            if owner is None:
                return None
            headers = {
                "x_ms_documentdb_partitionkeyrangeid": owner,
                "x_ms_read_key_type": "EffectivePartitionKeyRange",
                "x_ms_start_epk": part["min"],
                "x_ms_end_epk": part["max"],
            }
        answer = self.send(
            "GET", f"{self.monitored}/docs", "docs", self.monitored, a_im="Incremental Feed", x_ms_max_item_count=str(page),
            if_none_match=lease["ContinuationToken"], **headers,
        )  # fmt: skip
        if (str(answer.status_code), answer.headers.get("x-ms-substatus")) in GONE:
            return None
        assert answer.status_code in (200, 304), f"{answer.status_code} {answer.text}"
        items = answer.json()["Documents"] if answer.status_code == 200 else []
        return items, answer.headers["etag"]


def contains(entry, part):
    return entry["minInclusive"] <= part["min"] and part["max"] <= entry["maxExclusive"]


def overlaps(entry, part):
    return entry["minInclusive"] < part["max"] and part["min"] < entry["maxExclusive"]


class Host:
    """A host that balances leases and reads their ranges. `handle(host, items)` may raise: the page comes again."""

    def __init__(self, name, service, prefix, clock, handle, page=3):
        self.name, self.service, self.prefix, self.clock, self.handle, self.page = name, service, prefix, clock, handle, page
        self.held = {}

    def start(self):
        """Makes the leases, unless they are there or another host makes them. Whether they are there."""
        service, lock = self.service, f"{self.prefix}.lock"
        if service.item("GET", f"{self.prefix}.info").status_code == 200:
            return True
        locked = service.item("POST", lock, {"id": lock, "ttl": 30}, prefer="return=minimal")
        if locked.status_code == 409:
            return False
        assert locked.status_code == 201, locked.text
        for entry in service.ranges(service.monitored):
            part = {"min": entry["minInclusive"], "max": entry["maxExclusive"]}
            self.create(entry["id"], part, None)
        info = service.item("POST", f"{self.prefix}.info", {"id": f"{self.prefix}.info"})
        assert info.status_code in (201, 409), info.text
        freed = service.item("DELETE", lock, if_match=locked.headers["etag"])
        assert freed.status_code == 204, freed.text
        return True

    def create(self, token, part, continuation, is_part=False):
        name = f"{self.prefix}..{token}"
        lease = {
            "id": name, "version": 0, "_etag": None, "LeaseToken": token, "FeedRange": {"Range": part}, "Owner": None,
            "ContinuationToken": continuation, "properties": {}, "timestamp": None, "_ts": 0, "Mode": "Incremental Feed",
        }  # fmt: skip
        if is_part:
            lease["isPart"] = True
        answer = self.service.item("POST", name, lease, prefer="return=minimal")
        # 409: the other host has made it.
        assert answer.status_code in (201, 409), answer.text

    def replace(self, lease, change):
        """Writes a lease under its etag, after a conflict anew while this host still has it. The lease; `None`: it is lost."""
        for _ in range(RETRIES):
            wanted = {**lease, **change, "timestamp": self.clock()}
            answer = self.service.item("PUT", lease["id"], wanted, if_match=lease["_etag"])
            if answer.status_code == 200:
                return answer.json()
            if answer.status_code == 404:
                return None
            assert answer.status_code == 412, answer.text
            answer = self.service.item("GET", lease["id"])
            if answer.status_code == 404:
                return None
            if answer.json()["Owner"] != lease["Owner"]:
                return None
            lease = answer.json()
        return None

    def balance(self):
        """Renews what this host has, and takes one lease: a free one, one whose time is over, or one of a host with more than its share."""
        for name, lease in list(self.held.items()):
            self.keep(name, self.replace(lease, {}))
        leases = self.service.query_leases(self.prefix)
        now = self.clock()
        free = [x for x in leases if not x["Owner"] or x["timestamp"] + LEASE_SECONDS < now]
        owners = {}
        for lease in leases:
            if lease not in free:
                owners.setdefault(lease["Owner"], []).append(lease)
        share = -(-len(leases) // len(owners.keys() | {self.name}))
        taken = next(iter(free), None)
        if taken is None and len(owners.get(self.name, [])) < share:
            other = max((x for x in owners.items() if x[0] != self.name), key=lambda x: len(x[1]), default=(None, []))[1]
            taken = other[0] if len(other) > share else None
        if taken and len(owners.get(self.name, [])) < share:
            answer = self.service.item("PUT", taken["id"], {**taken, "Owner": self.name, "timestamp": now}, if_match=taken["_etag"])
            assert answer.status_code in (200, 412, 404), answer.text
            if answer.status_code == 200:
                self.held[taken["id"]] = answer.json()

    def keep(self, name, lease):
        if lease is None:
            self.held.pop(name, None)
        else:
            self.held[name] = lease

    def read(self, name):
        """Reads a page of one lease, gives it to the handler, and writes the position: in this order."""
        lease = self.held[name]
        page = self.service.changes(lease, self.page)
        if page is None:
            self.replace_range(lease)
            return
        items, continuation = page
        if items:
            self.handle(self, items)
        if continuation != lease["ContinuationToken"]:
            self.keep(name, self.replace(lease, {"ContinuationToken": continuation}))

    def replace_range(self, lease):
        """The range was split or merged: other leases go on where this one is."""
        part = lease["FeedRange"]["Range"]
        now = [entry for entry in self.service.ranges(self.service.monitored) if overlaps(entry, part)]
        assert now, "some range covers every part"
        for entry in now:
            own = {"min": max(part["min"], entry["minInclusive"]), "max": min(part["max"], entry["maxExclusive"])}
            whole = own == {"min": entry["minInclusive"], "max": entry["maxExclusive"]}
            token = entry["id"] if whole else f"{own['min']}-{own['max']}"
            self.create(token, own, lease["ContinuationToken"], is_part=not whole)
        gone = self.service.item("DELETE", lease["id"], if_match=lease["_etag"])
        assert gone.status_code in (204, 404, 412), gone.text
        self.held.pop(lease["id"], None)
