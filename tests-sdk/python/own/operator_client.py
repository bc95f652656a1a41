"""An operator of partitions: requests below `/_shardlake/v1/`, signed as all others are."""

import base64
import email.utils
import hashlib
import hmac
import os
import time
import urllib.parse

import requests

# Turns a hang into a failure; it is no verdict on speed.
HANG_SECONDS = 500


def operate(method, container, rest, body=None):
    path = f"_shardlake/v1/{container.container_link}/{rest}"
    date = email.utils.formatdate(usegmt=True)
    payload = f"{method.lower()}\nshardlake\n{path}\n{date.lower()}\n\n"
    key = base64.b64decode(os.environ["SHARDLAKE_KEY"])
    signature = base64.b64encode(hmac.new(key, payload.encode(), hashlib.sha256).digest()).decode()
    headers = {"authorization": urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe=""), "x-ms-date": date}
    answer = requests.request(method, os.environ["SHARDLAKE_HTTP"] + path, headers=headers, json=body, timeout=HANG_SECONDS)
    assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json()


def ranges(container):
    """The ids of the live ranges, which the SDK does not learn by this."""
    return [partition["id"] for partition in operate("GET", container, "partitions")["partitions"]]


def relocate(container, rest, body=None):
    """Begins a split or a merge, and returns at its end."""
    before = operate("GET", container, "partitions")["generation"]
    operate("POST", container, rest, body)
    end = time.monotonic() + HANG_SECONDS
    while True:
        report = operate("GET", container, "partitions")
        if report["generation"] > before and not report.get("relocation"):
            return
        assert time.monotonic() < end, f"{rest} does not end"
        time.sleep(0.02)


def split(container):
    relocate(container, f"partitions/{ranges(container)[0]}/split")


def merge(container):
    relocate(container, "partitions/merge", {"ids": ranges(container)[:2]})
