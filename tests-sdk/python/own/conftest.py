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
def data():
    """The published data sets; without them the tests are skipped, aloud."""
    directory = pathlib.Path(os.environ.get("SHARDLAKE_DATA", pathlib.Path(__file__).parents[3] / "../shared/data"))
    if not directory.is_dir():
        pytest.skip(f"{directory} is not there (set SHARDLAKE_DATA)")
    return directory
