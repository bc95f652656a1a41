"""What the files of this suite share: clients of the suite's server, and servers that a file starts for itself."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
import uuid
from urllib.parse import quote_plus

from pymongo import MongoClient

URI = os.environ["SHARDLAKE_MONGO"]
KEY = os.environ["SHARDLAKE_KEY"]
CA_FILE = os.environ.get("SHARDLAKE_CA_FILE", "")
ACCOUNT = "localhost"
# More than any machine takes, so that a test that is not about it never meets it.
SELECTION = {"serverSelectionTimeoutMS": 20000}


def client(**options):
    return MongoClient(URI, **SELECTION, **options)


def database_name():
    return "py_" + uuid.uuid4().hex[:12]


class WithDatabase(unittest.TestCase):
    def setUp(self):
        self.client = client()
        self.db = self.client[database_name()]

    def tearDown(self):
        self.client.drop_database(self.db.name)
        self.client.close()


class OwnServer:
    """A server with a key of its own, which asks everybody who he is, and holds collections to their throughput."""

    KEY = "YSBrZXkgb2YgYSBzdWl0ZSwgYW5kIG9mIG5vdGhpbmcgZWxzZQ=="

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="shardlake-mongo-")
        keys = os.path.join(self.directory, "keys.json")
        with open(keys, "w", encoding="utf-8") as file:
            json.dump({"primary": self.KEY}, file)
        flags = ["--listen=127.0.0.1:0", "--mongo-listen=127.0.0.1:0", "--mongo-test-commands", "--log-level=error"]
        flags += [f"--{name}-seconds=3600" for name in ("request", "header", "idle")]
        flags += [f"--key-file={keys}", "--data-dir=" + os.path.join(self.directory, "data")]
        # What begins with SHARDLAKE_ is a setting to a server, and an unknown one an error.
        env = {name: value for name, value in os.environ.items() if not name.startswith("SHARDLAKE_")}
        command = [os.environ["SHARDLAKE_BINARY"], "serve", *flags]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        self.address, self.ca_file = ready["mongo"][0].removeprefix("mongodb://").rstrip("/"), ready["ca_file"]
        self.endpoint = next(address for address in ready["endpoints"] if address.startswith("http:"))

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        shutil.rmtree(self.directory)

    def uri(self, user, password, transport="plain", **options):
        """The address as an application's settings hold it."""
        host = self.address
        if transport == "tls":
            host = host.replace("127.0.0.1", "localhost")
            options = {**options, "tls": "true", "tlsCAFile": self.ca_file}
        query = "&".join(f"{name}={quote_plus(value)}" for name, value in options.items())
        return f"mongodb://{quote_plus(user)}:{quote_plus(password)}@{host}/?{query}"

    def owner(self, transport="plain", **options):
        return MongoClient(self.uri(ACCOUNT, self.KEY, transport), **SELECTION, **options)
