"""Runs the Python SDK's own tests (`sdk`) or ours (`own`) against a server that is already there.

    SHARDLAKE_HTTPS=https://localhost:PORT/ SHARDLAKE_KEY=… python3 run.py sdk --work DIR [--results FILE] [test files…]

Installs the pinned packages into a virtual environment below the work directory, unpacks the SDK's source distribution (which ships
its tests), runs each file in a pytest process of its own, because each creates and deletes its own database, and prints the counts as a
Markdown table, which is the one in docs/compatibility/nosql.md. Failures are listed below it. Exit status 1 when anything failed or a file reported no counts.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
# They turn a hang into a failure, however busy the machine is.
FILE_SECONDS_MAX = 3600
TEST_SECONDS_MAX = 600


def main():
    arguments = parse_arguments()
    work = pathlib.Path(arguments.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    python = environment(work)
    if arguments.which == "sdk":
        tests = sdk_tests(work, python)
        files = arguments.files or expected()["files"]
    else:
        tests = HERE / "own"
        files = arguments.files or sorted(path.name for path in tests.glob("test_*.py"))
    print("| file | passed | failed | skipped | seconds |\n|---|---|---|---|---|", flush=True)
    rows = [run_file(arguments, work, python, tests, file) for file in files]
    total = {name: sum(row[name] for row in rows) for name in ("passed", "failed", "skipped")}
    print_row({"file": "total", "seconds": sum(row["seconds"] for row in rows), **total})
    for row in rows:
        if row["failed"]:
            print_failures(work / "reports" / f"{row['file']}.log")
    if arguments.results:
        pathlib.Path(arguments.results).write_text(json.dumps(rows), encoding="utf-8")
    sys.exit(1 if total["failed"] else 0)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=["sdk", "own"])
    parser.add_argument("--work", required=True, help="where packages, tests and reports go")
    parser.add_argument("--results", help="file for the counts as JSON")
    parser.add_argument("-k", dest="keyword", help="only tests whose name matches, as in pytest")
    parser.add_argument("files", nargs="*", help="test files instead of all")
    return parser.parse_intermixed_args()


def expected():
    with open(HERE / "expected.toml", "rb") as file:
        return tomllib.load(file)


def environment(work):
    """A virtual environment with the pinned packages, made again when the pins change."""
    requirements = HERE / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    home = work / "venv"
    python = home / "bin" / "python"
    stamp = home / "requirements.sha256"
    if not (stamp.is_file() and stamp.read_text() == wanted):
        venv.create(home, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--requirement", requirements], check=True)
        stamp.write_text(wanted)
    return python


def sdk_tests(work, python):
    """The directory of the SDK's tests, from its source distribution of the pinned version."""
    version = pinned_sdk_version()
    tests = work / f"azure_cosmos-{version}" / "tests"
    if not tests.is_dir():
        download = work / "sdist"
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "download", "--no-deps", "--no-binary", ":all:", f"azure-cosmos=={version}", "--dest", download],
            check=True,
        )
        with tarfile.open(download / f"azure_cosmos-{version}.tar.gz") as archive:
            archive.extractall(work, filter="data")
        shutil.rmtree(download)
    return tests


def pinned_sdk_version():
    for line in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("azure-cosmos=="):
            return line.removeprefix("azure-cosmos==").strip()
    sys.exit("requirements.txt does not pin azure-cosmos")


def run_file(arguments, work, python, tests, file):
    reports = work / "reports"
    reports.mkdir(exist_ok=True)
    report = reports / f"{file}.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += ["-o", "asyncio_mode=auto", f"--timeout={TEST_SECONDS_MAX}", "-rf", file]
    if arguments.which == "sdk":
        command += ["-p", "shardlake_plugin"]
    if arguments.keyword:
        command += ["-k", arguments.keyword]
    started = time.monotonic()
    log = reports / f"{file}.log"
    with open(log, "wb") as output:
        try:
            subprocess.run(
                command, cwd=tests, env=settings(tests), stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, timeout=FILE_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped after {FILE_SECONDS_MAX} seconds\n".encode())
    row = {"file": file, "seconds": round(time.monotonic() - started), **counts(report)}
    print_row(row)
    return row


def settings(tests):
    endpoint = os.environ["SHARDLAKE_HTTPS"]
    return {
        **os.environ,
        "ACCOUNT_HOST": endpoint,
        "ACCOUNT_KEY": os.environ["SHARDLAKE_KEY"],
        "COSMOS_TEST_DATA_AUTH_MODE": "key",
        "SHARDLAKE_EXPECTED": str(HERE / "expected.toml"),
        "SHARDLAKE_SDK_TEST_FILES": str(tests),
        "PYTHONPATH": os.pathsep.join([str(HERE / "plugin"), str(tests)]),
        "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def counts(report):
    """What the report says; a file that left none counts as one failure, so that it cannot pass by dying."""
    if not report.is_file():
        return {"passed": 0, "failed": 1, "skipped": 0, "skips": []}
    suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    passed = max(number["tests"] - failed - number["skipped"], 0)
    if passed + failed + number["skipped"] == 0:
        failed = 1
    return {"passed": passed, "failed": failed, "skipped": number["skipped"], "skips": skips(suite)}


def skips(suite):
    """Each skipped test with its reason."""
    cases = [(case, case.find("skipped")) for case in suite.iter("testcase")]
    return [
        {"test": case.get("name"), "reason": skipped.get("message") or "no reason given"}
        for case, skipped in cases
        if skipped is not None
    ]


def print_row(row):
    print("| " + " | ".join(str(row[name]) for name in ("file", "passed", "failed", "skipped", "seconds")) + " |", flush=True)


def print_failures(log):
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    named = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    print(f"\n{log}", flush=True)
    for line in named or lines[-15:]:
        print(f"    {line[:300]}", flush=True)


if __name__ == "__main__":
    main()
