"""Runs PyMongo's own tests against a server that is already there.

    SHARDLAKE_MONGO=mongodb://HOST:PORT/ python3 run.py --work DIR [--results FILE] [test files…]

Installs the pinned driver into a virtual environment below the work directory, unpacks its source distribution (which ships the tests), and runs each
file that `expected.toml` lists in a pytest process of its own. A test that fails has to be in the table of expectations with a reason, and counts as
skipped; one that passes although it is in the table has to leave it. Prints the counts as a Markdown table and what was not expected below it. Exit
status 1 when anything was not expected.

PyMongo's runner skips everything and ends well when it cannot connect: the minimums of `cargo xtask test` catch that, and a file of which
nothing ran is a failure here.
"""

import argparse
import fnmatch
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
import urllib.parse
import venv
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
# What the tests read besides themselves; not bson/ and pymongo/, which come from the wheel.
UNPACKED = ("test", "tools", "integration_tests", "doc", "pyproject.toml", "README.md")
# They turn a hang into a failure, however busy the machine is.
FILE_SECONDS_MAX = 3600
TEST_SECONDS_MAX = 300


def main():
    arguments = parse_arguments()
    work = pathlib.Path(arguments.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    python = environment(work)
    tests = unpacked(work, python)
    expected = read_expected()
    rows = []
    print("| file | passed | failed | skipped | seconds |\n|---|---|---|---|---|", flush=True)
    for file in arguments.files or expected["files"]:
        rows.append(run_file(arguments, work, python, tests, file, expected))
    for row in rows:
        for line in row["unexpected"]:
            print(f"not expected: {line}")
    if arguments.results:
        pathlib.Path(arguments.results).write_text(json.dumps(rows), encoding="utf-8")
    sys.exit(1 if any(row["failed"] for row in rows) else 0)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, help="where packages, tests and reports go")
    parser.add_argument("--results", help="file for the counts as JSON")
    parser.add_argument("-k", dest="keyword", help="only tests whose name matches, as in pytest")
    parser.add_argument("files", nargs="*", help="test files instead of all")
    return parser.parse_intermixed_args()


def read_expected():
    with open(HERE / "expected.toml", "rb") as file:
        table = tomllib.load(file)
    patterns = [(pattern, entry["reason"]) for entry in table["failure"] for pattern in entry["tests"]]
    return {"files": table["files"], "patterns": patterns}


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


def version():
    for line in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("pymongo=="):
            return line.removeprefix("pymongo==").strip()
    sys.exit("requirements.txt does not pin pymongo")


def unpacked(work, python):
    """A directory with the tests of the source distribution of the pinned version, and without the driver."""
    name = f"pymongo-{version()}"
    place = work / f"{name}-tests"
    if place.is_dir():
        return place
    download = work / "sdist"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "download", "--no-deps", "--no-binary", ":all:", f"pymongo=={version()}", "--dest", download],
        check=True,
    )
    half = work / f"{name}-half"
    shutil.rmtree(half, ignore_errors=True)
    with tarfile.open(download / f"{name}.tar.gz") as archive:
        archive.extractall(half, filter="data")
    whole = half / name
    for entry in list(whole.iterdir()):
        if entry.name not in UNPACKED:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    whole.rename(place)
    shutil.rmtree(half)
    return place


def run_file(arguments, work, python, tests, file, expected):
    reports = work / "reports"
    reports.mkdir(exist_ok=True)
    name = file.replace("/", "_")
    report, log = reports / f"{name}.xml", reports / f"{name}.log"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-m", "default"]
    command += [f"--junitxml={report}", f"--timeout={TEST_SECONDS_MAX}", f"test/{file}"]
    if arguments.keyword:
        command += ["-k", arguments.keyword]
    started = time.monotonic()
    with open(log, "wb") as output:
        try:
            subprocess.run(
                command, cwd=tests, env=settings(), stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, timeout=FILE_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped after {FILE_SECONDS_MAX} seconds\n".encode())
    row = {"file": file, **judged(file, cases_of(report), expected["patterns"])}
    seconds = round(time.monotonic() - started)
    print(f"| {file} | {row['passed']} | {row['failed']} | {row['skipped']} | {seconds} |", flush=True)
    return row


def settings():
    server = urllib.parse.urlsplit(os.environ["SHARDLAKE_MONGO"])
    return {
        **os.environ,
        "DB_IP": server.hostname,
        "DB_PORT": str(server.port),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def cases_of(report):
    """Name → (`passed`, `failed` or `skipped`, why); `None` where the file died before it could say."""
    if not report.is_file():
        return None
    cases = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        kind, why = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                kind, why = "failed", child.get("message") or ""
            elif child.tag == "skipped" and kind == "passed":
                kind, why = "skipped", child.get("message") or ""
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        # An error when the test is taken down counts, too.
        if cases.get(name, ("passed",))[0] != "failed":
            cases[name] = (kind, " ".join(why.split())[:200])
    return cases


def judged(file, cases, patterns):
    row = {"passed": 0, "failed": 0, "skipped": 0, "skips": [], "unexpected": []}
    if cases is None:
        return {**row, "failed": 1, "unexpected": [f"{file} left no report"]}
    reasons = {}
    for name, (kind, why) in cases.items():
        path = f"{file}::{name}"
        reason = next((reason for pattern, reason in patterns if fnmatch.fnmatchcase(path, pattern)), None)
        if kind == "failed" and reason:
            reasons[reason] = reasons.get(reason, 0) + 1
        elif kind == "failed":
            row["failed"] += 1
            row["unexpected"].append(f"{path}: {why}")
        elif kind == "passed":
            row["passed"] += 1
            # A pattern for many tests may name some that pass.
            if any(pattern == path for pattern, _ in patterns):
                row["failed"] += 1
                row["unexpected"].append(f"{path} passes: take it out of the table")
        else:
            reason = why or "no reason given"
            reasons[reason] = reasons.get(reason, 0) + 1
    if not row["passed"] and not row["failed"]:
        row["failed"] = 1
        row["unexpected"].append(f"{file}: nothing ran")
    row["skipped"] = sum(reasons.values())
    row["skips"] = [
        {"test": f"{count} of {file}", "reason": reason} for reason, count in sorted(reasons.items())
    ]
    return row


if __name__ == "__main__":
    main()
