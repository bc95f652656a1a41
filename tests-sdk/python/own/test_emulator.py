"""Emulator mode by the Testcontainers module for Python and by the SDK, with a process in the container's place."""

import io
import json
import os
import pathlib
import subprocess
import tarfile
import threading

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from testcontainers.community import cosmosdb
from testcontainers.core import container as core
from testcontainers.core.waiting_utils import wait_for_logs

WELL_KNOWN_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


class Emulator:
    """The program as an image starts it, with free ports."""

    def __init__(self, directory, arguments=(), variables=()):
        self.pem = pathlib.Path(directory, "appdata", "emulator.pem")
        environment = {
            "PORT": "0",
            "EXPLORER_PORT": "0",
            "HEALTH_PORT": "0",
            "DATA_PATH": str(pathlib.Path(directory, "data")),
            "SHARDLAKE_DURABILITY": "memory",
            "SHARDLAKE_EMULATOR_PEM": str(self.pem),
            **dict(variables),
        }
        self.output = b""
        self.log = pathlib.Path(directory, "log")
        self.process = subprocess.Popen(
            [os.environ["DEMO_BINARY"], "serve", "--emulator", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self.log.open("wb"),
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.output += line

    def record(self):
        return json.loads(self.output.split(b"\n", 1)[0])

    def port(self):
        return int(self.record()["endpoints"][0].rstrip("/").rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.wait()


class FakeContainer:
    """The part of a container that the module copies a file out of."""

    def __init__(self, emulator):
        self.emulator = emulator

    def get_archive(self, path):
        content = self.emulator.pem.read_bytes()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(os.path.basename(path))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        return [archive.getvalue()], None


@pytest.fixture
def in_place_of_docker(monkeypatch, tmp_path):
    """Each container of the module becomes a process."""

    def start(self):
        self.emulator = Emulator(tmp_path, self._command or (), self.env)
        return self

    monkeypatch.setattr(core, "DockerClient", lambda **_: None)
    patched = core.DockerContainer
    monkeypatch.setattr(patched, "start", start)
    monkeypatch.setattr(patched, "stop", lambda self, *_, **__: self.emulator.stop())
    monkeypatch.setattr(patched, "get_logs", lambda self: (self.emulator.output, self.emulator.log.read_bytes()))
    monkeypatch.setattr(patched, "get_container_host_ip", lambda self: "localhost")
    monkeypatch.setattr(patched, "get_exposed_port", lambda self, _port: self.emulator.port())
    monkeypatch.setattr(patched, "get_wrapped_container", lambda self: FakeContainer(self.emulator))
    monkeypatch.setattr(patched, "reload", lambda self: None)
    monkeypatch.setattr(patched, "status", property(lambda self: "running"))


def write_and_read(client):
    database = client.create_database_if_not_exists("db")
    container = database.create_container_if_not_exists("c", PartitionKey(path="/pk"))
    container.create_item({"id": "1", "pk": "a", "text": "é"})
    assert container.read_item("1", "a")["text"] == "é"
    rows = container.query_items("SELECT VALUE c.text FROM c WHERE c.id = '1'", enable_cross_partition_query=True)
    assert list(rows) == ["é"]


def test_the_testcontainers_module(in_place_of_docker):
    with cosmosdb.CosmosDBNoSQLEndpointContainer(bind_ports=False) as container:
        container._wait_for_url(f"{container.url}/_explorer/index.html")
        container._wait_for_query_success()
        with container.insecure_sync_client() as client:
            write_and_read(client)
        assert container.server_certificate_pem.startswith(b"-----BEGIN CERTIFICATE-----")
        assert container.key == WELL_KNOWN_KEY


def test_the_certificate_of_the_module_is_to_be_trusted(in_place_of_docker, tmp_path):
    with cosmosdb.CosmosDBNoSQLEndpointContainer(bind_ports=False) as container:
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(container.server_certificate_pem)
        with CosmosClient(container.url, container.key, connection_verify=str(trusted)) as client:
            write_and_read(client)


def test_the_client_of_the_vnext_emulator(in_place_of_docker):
    with core.DockerContainer("image").with_command(["--enable-explorer", "false"]) as container:
        wait_for_logs(container, "Now listening on: ")
        wait_for_logs(container, "Started")
        with CosmosClient(f"http://localhost:{container.get_exposed_port(8081)}/", WELL_KNOWN_KEY) as client:
            write_and_read(client)
