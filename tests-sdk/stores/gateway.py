"""Runs a command beside an object store of its own: SeaweedFS's S3 gateway, or Azurite.

    python3 gateway.py seaweedfs --work DIR -- cargo xtask test javascript

Installs the pinned store below the work directory, starts it on free loopback ports with an empty directory, makes a bucket, and runs the
command with SHARDLAKE_TEST_STORE and the credentials in its environment. The store is ended by its process id. Exit status: the command's.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from email.utils import formatdate

HERE = pathlib.Path(__file__).resolve().parent
BUCKET = "shardlake"
# It turns a store that does not start into a failure.
START_SECONDS_MAX = 120
# Azurite's own, which its documentation publishes.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", choices=["seaweedfs", "azurite"])
    parser.add_argument("--work", required=True, help="where the store is installed")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    work = pathlib.Path(arguments.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    begin = {"seaweedfs": seaweedfs, "azurite": azurite}[arguments.store]
    with tempfile.TemporaryDirectory(prefix="shardlake-store-") as directory:
        program, environment, make_bucket = begin(work, pathlib.Path(directory))
        with open(pathlib.Path(directory) / "store.log", "wb") as log:
            process = subprocess.Popen(program, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            when_it_answers(process, make_bucket)
            status = subprocess.run(arguments.command, env={**os.environ, **environment}, check=False).returncode
        except Exception:
            print((pathlib.Path(directory) / "store.log").read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            process.kill()
            process.wait()
    sys.exit(status)


def seaweedfs(work, directory):
    program = in_venv(work / "seaweedfs") / "weed"
    names = ["master", "volume", "filer", "s3"]
    ports = dict(zip([*names, *(f"{name}.grpc" for name in names)], free_ports(8)))
    credentials = {"accessKey": "shardlake", "secretKey": "of a test"}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    configuration = directory / "s3.json"
    identity = {"name": "shardlake", "credentials": [credentials], "actions": actions}
    configuration.write_text(json.dumps({"identities": [identity]}))
    data = directory / "data"
    data.mkdir()
    command = [
        program, "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}", "-filer", "-s3",
        "-master.telemetry=false", "-volume.max=40", "-master.volumeSizeLimitMB=64", f"-s3.config={configuration}",
        "-s3.port.iceberg=0", "-s3.port.lance=0",
    ]
    for name in names:
        command += [f"-{name}.port={ports[name]}", f"-{name}.port.grpc={ports[name + '.grpc']}"]
    environment = {
        "SHARDLAKE_TEST_STORE": f"s3://{BUCKET}",
        "AWS_ENDPOINT": f"http://127.0.0.1:{ports['s3']}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": credentials["accessKey"],
        "AWS_SECRET_ACCESS_KEY": credentials["secretKey"],
    }

    def make_bucket():
        # A bucket is a directory of the filer; the gateway must be there, too.
        return answers(ports["s3"], "GET", "/", {}) and 201 == answers(
            ports["filer"], "POST", f"/buckets/{BUCKET}/?op=mkdir", {}
        )

    return command, environment, make_bucket


def azurite(work, directory):
    home = work / "azurite"
    wanted = (HERE / "package-lock.json").read_bytes()
    stamp = home / "node_modules" / ".shardlake-lock"
    if not (stamp.is_file() and stamp.read_bytes() == wanted):
        home.mkdir(parents=True, exist_ok=True)
        for name in ["package.json", "package-lock.json"]:
            shutil.copy(HERE / name, home / name)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=home, check=True)
        stamp.write_bytes(wanted)
    [port] = free_ports(1)
    command = [
        home / "node_modules" / ".bin" / "azurite-blob", "--silent", "--disableTelemetry", "--location", directory / "data",
        "--blobHost", "127.0.0.1", "--blobPort", str(port),
    ]
    environment = {
        "SHARDLAKE_TEST_STORE": f"az://{BUCKET}",
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
    }

    def make_bucket():
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = [f"{name}:{value}" for name, value in headers.items()]
        resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{BUCKET}\nrestype:container"
        text = "PUT" + "\n" * 12 + "\n".join([*lines, resource])
        signature = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(signature).decode()}"
        return 201 == answers(port, "PUT", f"/{AZURITE_ACCOUNT}/{BUCKET}?restype=container", headers)

    return command, environment, make_bucket


def in_venv(home):
    """The programs of a virtual environment with the pinned packages."""
    requirements = HERE / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = home / "requirements.sha256"
    if not (stamp.is_file() and stamp.read_text() == wanted):
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--requirement", requirements], check=True)
        stamp.write_text(wanted)
    return home / "bin"


def free_ports(count):
    """All are held until all are known, so that no two are the same."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def answers(port, method, path, headers):
    """The status, or None where nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def when_it_answers(process, make_bucket):
    until = time.time() + START_SECONDS_MAX
    while not make_bucket():
        if process.poll() is not None or time.time() > until:
            raise RuntimeError("the store does not start")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
