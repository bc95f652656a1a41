"""Fixtures: a client over each scheme, and a database that goes away with its test module."""

import os
import pathlib
import uuid

import pytest
from azure.cosmos import CosmosClient


@pytest.fixture(scope="module", params=["http", "https"])
def client(request):
    if request.param == "http":
        yield CosmosClient(os.environ["SHARDLAKE_HTTP"], os.environ["SHARDLAKE_KEY"])
        return
    certificate = os.environ["SHARDLAKE_CA_FILE"]
    # The SDK does not verify names of this machine, so the certificate is given and checked explicitly.
    with CosmosClient(
        os.environ["SHARDLAKE_HTTPS"], os.environ["SHARDLAKE_KEY"], connection_verify=certificate
    ) as secure:
        yield secure


@pytest.fixture(scope="module")
def database(client):
    created = client.create_database(f"own-{uuid.uuid4().hex}")
    yield created
    client.delete_database(created)


@pytest.fixture(scope="session")
def own_data():
    """Data sets of our own making, which are there in every clone."""
    return pathlib.Path(os.environ["SHARDLAKE_OWN_DATA"])


@pytest.fixture(scope="session")
def data():
    """The published data sets; without them the tests are skipped, with the reason."""
    directory = pathlib.Path(os.environ.get("SHARDLAKE_DATA", "nowhere"))
    if not directory.is_dir():
        pytest.skip("the shared 'data' data is not there (set SHARDLAKE_DATA)")
    return directory
