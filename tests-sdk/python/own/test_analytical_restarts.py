"""Analytical stores in each state of the policy, through kills and starts of their server."""

import json
import os
import pathlib
import subprocess

import operator_client
import pytest
import test_analytical_store as store
from azure.cosmos import CosmosClient, exceptions

BUILT = 400


class Server:
    """A server of a data directory that outlives it. Requests of operators go to the running one."""

    def __init__(self, directory, monkeypatch):
        self.directory, self.monkeypatch, self.process = directory, monkeypatch, None

    def start(self, *arguments):
        """The database of the test."""
        command = [os.environ["DEMO_BINARY"], "serve", "--data-dir", str(self.directory), "--listen", "127.0.0.1:0", *arguments]
        with pathlib.Path(f"{self.directory}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env={"PATH": os.environ["PATH"]})
        ready = json.loads(self.process.stdout.readline())
        endpoint = next(endpoint for endpoint in ready["endpoints"] if endpoint.startswith("http:"))
        self.monkeypatch.setenv("SHARDLAKE_HTTP", endpoint)
        self.monkeypatch.setenv("SHARDLAKE_KEY", ready["key"])
        return CosmosClient(endpoint, ready["key"]).create_database_if_not_exists("shop")

    def end(self, is_killed):
        if self.process and self.process.poll() is None:
            self.process.kill() if is_killed else self.process.terminate()
            self.process.wait(operator_client.HANG_SECONDS)


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = Server(tmp_path / "data", monkeypatch)
    yield server
    server.end(is_killed=True)


def container(database, name, policy, items=10):
    """A container with items that has a table from then on."""
    created = database.create_container(name, store.KEY)
    store.write(created, range(items))
    if policy is not None:
        set_policy(database, created, policy)
    return created


def set_policy(database, container, policy):
    database.replace_container(container, store.KEY, analytical_storage_ttl=policy)


def state(container):
    return store.report(container)["state"]


def is_off(container):
    with pytest.raises(AssertionError, match="AnalyticsNotEnabled"):
        store.report(container)
    assert store.NAME not in container.read()
    return True


def prepare(database):
    """A container in each state."""
    container(database, "off", None)
    store.followed(container(database, "following", -1))
    store.followed(container(database, "timed", 86_400))
    paused = container(database, "paused", -1)
    store.followed(paused)
    operator_client.operate("POST", paused, "analytics/pause")
    store.write(paused, range(10, 20))
    paused.delete_item("i0", "k0")
    closed, again = container(database, "closed", -1), container(database, "again", -1)
    store.followed(closed)
    generation = store.followed(again)["figures"]["generation"]
    set_policy(database, closed, 0)
    store.write(closed, range(10, 20))
    set_policy(database, again, 0)
    store.write(again, range(10, 20))
    again.delete_item("i0", "k0")
    set_policy(database, again, -1)
    # The last ones before the end of the server: nothing waits for their tables.
    container(database, "building", -1, BUILT)
    store.write(database.get_container_client("following"), range(5, 15))
    return generation


def check_states(database, generation):
    """Each store goes on as its policy prescribes, without a request."""
    of = database.get_container_client
    assert is_off(of("off"))
    for name, policy in [("following", -1), ("timed", 86_400), ("building", -1), ("again", -1)]:
        assert store.policy_of(of(name)) == policy
        report = store.followed(of(name))
        assert report["ttl"] == policy
        assert store.rows(of(name)) == store.items(of(name)), name
    assert store.report(of("building"))["figures"]["rows"] == BUILT
    assert store.report(of("again"))["figures"]["generation"] == generation, "the table continues"
    paused, closed = of("paused"), of("closed")
    assert (state(paused), store.policy_of(paused)) == ("paused", -1)
    assert (state(closed), store.policy_of(closed)) == ("closed", 0)
    for stopped in [paused, closed]:
        assert store.rows(stopped).keys() == {f"i{n}" for n in range(10)}, "the last version stays readable"


# check: analytical-store
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
def test_each_state_of_the_policy_survives_restarts(server, is_killed):
    database = server.start()
    # Skips where no container may have the policy.
    database.delete_container(store.create(database, analytical_storage_ttl=-1))
    generation = prepare(database)
    for _ in range(2):
        server.end(is_killed)
        database = server.start()
        check_states(database, generation)

    of = database.get_container_client
    operator_client.operate("POST", of("paused"), "analytics/resume")
    set_policy(database, of("closed"), -1)
    set_policy(database, of("off"), -1)
    for name in ["paused", "closed", "off"]:
        store.followed(of(name))
    server.end(is_killed)
    database = server.start()
    of = database.get_container_client
    for name in ["paused", "closed", "off", "following", "timed", "again", "building"]:
        store.write(of(name), range(30, 33))
        store.followed(of(name))
        assert store.rows(of(name)) == store.items(of(name)), name


# check: analytical-store
def test_a_server_without_tables_leaves_each_state_as_it_is(server):
    database = server.start()
    database.delete_container(store.create(database, analytical_storage_ttl=-1))
    generation = prepare(database)
    store.followed(database.get_container_client("building"))
    server.end(is_killed=False)

    database = server.start("--analytics", "off")
    of = database.get_container_client
    assert is_off(of("off"))
    for name in ["following", "building", "again", "paused"]:
        assert (state(of(name)), store.policy_of(of(name))) == ("stopped", -1)
    assert state(of("closed")) == "closed"
    store.write(of("following"), range(40, 45))
    of("following").delete_item("i1", "k1")
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        set_policy(database, of("off"), -1)
    assert refused.value.status_code == 501
    server.end(is_killed=False)

    database = server.start()
    check_states(database, generation)
