"""Runs the programs that docs/analytics.md prints against tables of a live server, and compares their counts with a scan.

    SHARDLAKE_HTTP=… SHARDLAKE_KEY=… SHARDLAKE_READ_KEY=… SHARDLAKE_DOCS=docs snippets.py

The output is that of the Test Anything Protocol. A snippet runs as it is printed, with the table's
folder for `ROOT/shop/customer`. Two things differ: DuckDB loads its extensions from the installed
packages, and Spark runs only where pyspark and its jars are installed. Snippets named `sql-…` ask the
server over HTTP with a read-only key: they run with this server's address and the container's names.

Tables may lie in an S3 store whose credentials are in the environment: run it by `tests-sdk/stores/gateway.py`.
"""

import collections
import http.client
import importlib
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import traceback
import uuid

from account import Account, Container

MARKED = re.compile(r"<!-- snippet: (\S+) -->\n```python\n(.*?)\n```", re.DOTALL)
PRINTED_FOLDER = "ROOT/shop/customer"
INSTALL = 'con.execute("INSTALL delta; LOAD delta")'
SPARK_JAR = "io.delta_delta-spark_2.12-3.3.2.jar"
PRINTED_ENDPOINT = "http://127.0.0.1:8081/"
# The snippet that defines the function which the others named `sql-…` call.
OVER_HTTP = "sql-pyarrow"
# Fails behind its first rows.
BREAKS_OFF = "SELECT 100 / (value - 150000) AS n FROM generate_series(1, 200000)"
TYPES = ["customer", "salesOrder", "product"]


def snippets():
    """The marked programs of the page by name."""
    page = (pathlib.Path(os.environ["SHARDLAKE_DOCS"]) / "analytics.md").read_text(encoding="utf-8")
    found = dict(MARKED.findall(page))
    files, asks = {"duckdb", "polars", "delta-rs", "spark"}, {OVER_HTTP, "sql-polars", "sql-duckdb"}
    assert found.keys() == files | asks, found.keys()
    assert all(PRINTED_FOLDER in found[name] for name in files), "each names the folder"
    assert all("FROM customer" in found[name] and '"shop"' in found[name] for name in asks), "each names the table"
    assert PRINTED_ENDPOINT in found[OVER_HTTP], "the server's address"
    assert INSTALL in found["duckdb"], "the line that loads the extension"
    return found


def asking(programs, name, account, container):
    """A program that asks the server, with its address and the names of the container, and the function that it calls."""
    _, database, _, table = container.link.split("/")
    text = programs[name] if name == OVER_HTTP else f"{programs[OVER_HTTP]}\n{programs[name]}"
    text = text.replace(PRINTED_ENDPOINT, f"{account.endpoint}/").replace('"shop"', repr(database))
    return text.replace("FROM customer", f'FROM \\"{table}\\"')


def obstacle(name, location):
    """The reason why a snippet cannot run here."""
    if name.startswith("sql-") and "://" in location:
        return "SQL at the server reads tables in directories"
    if name == "duckdb" and location.startswith("az://"):
        return "DuckDB's extension for Azure is not installed"
    if name != "spark":
        return None
    if "://" in location:
        return "Spark's jars for stores are not installed"
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    if shutil.which("java") is None:
        return "Java is not installed"
    if not any(home.glob(f"jars/{SPARK_JAR}") for home in pathlib.Path.home().glob(".ivy2*")):
        return f"{SPARK_JAR} is not installed"
    return None


def extension(package):
    """The statement that loads an extension of DuckDB from its package."""
    folder = pathlib.Path(importlib.import_module(f"duckdb_extension_{package}").__file__).parent
    return f"LOAD '{next(folder.rglob('*.duckdb_extension'))}'"


def secret():
    """The statement that gives DuckDB the credentials of the environment, as docs/analytics.md has it."""
    of = os.environ
    scheme, endpoint = of["AWS_ENDPOINT"].split("://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{of['AWS_ACCESS_KEY_ID']}', SECRET '{of['AWS_SECRET_ACCESS_KEY']}', "
        f"REGION '{of['AWS_REGION']}', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL {scheme == 'https'})"
    )


def without_network(text, location):
    """The program with DuckDB's extensions from their packages."""
    if INSTALL not in text:
        return text
    statements = [extension("delta")]
    if location.startswith("s3://"):
        statements += [extension("httpfs"), secret()]
    return text.replace(INSTALL, "; ".join(f"con.execute({statement!r})" for statement in statements))


def counted(name, text):
    """Runs a program, and returns its rows by type."""
    names = {}
    exec(compile(text, f"docs/analytics.md: {name}", "exec"), names)  # noqa: S102
    rows = names["rows"]
    if name == "delta-rs":
        import pyarrow

        rows = [(row["type"], row["n"]) for row in pyarrow.table(rows).to_pylist()]
    pairs = [tuple(row) for row in rows]
    assert len(dict(pairs)) == len(pairs), f"a type is there twice: {pairs}"
    return dict(pairs)


def broken_off(program):
    """Runs a statement that fails behind its first rows, and returns a sentence where it looks complete."""
    names = {}
    exec(compile(program, "docs/analytics.md", "exec"), names)  # noqa: S102
    try:
        read = names["sql"](BREAKS_OFF)
    except (http.client.HTTPException, OSError) as error:
        print(f"# broken off: {error!r}")
        return []
    return [f"{read.num_rows} rows look complete"]


def item(n, **more):
    return {"id": f"i{n}", "pk": f"k{n % 7}", "type": TYPES[n % 3], "n": n, "lines": [{"sku": "a", "price": n + 0.25}], **more}


def phases(container):
    """Changes of the container, each with the report of the table that has them."""
    for n in range(90):
        container.upsert(item(n))
    yield "writes", container.followed()
    for n in range(0, 90, 4):
        container.upsert(item(n, type="changed", note="later"))
    for n in range(1, 90, 8):
        container.delete(item(n))
    report = container.followed()
    assert report["figures"]["rowsDeleted"] > 0, "deletion vectors hide rows"
    yield "updates and deletes", report
    report = container.compact()
    assert report["figures"]["rowsDeleted"] == 0, "the compaction left no hidden rows"
    yield "a compaction", report
    container.upsert(item(200))
    container.delete(item(3))
    yield "changes after the compaction", container.followed()


def main():
    account, database = Account(), f"snippets-{uuid.uuid4().hex[:8]}"
    account.send("POST", "dbs", "", {"id": database}, feed="dbs")
    programs, results = snippets(), collections.Counter()
    # The second name has characters that are escaped in the folder's name.
    for container in ["customer", "my table's ü"]:
        container = Container(account, database, container)
        for changes, report in phases(container):
            expected = collections.Counter(item["type"] for item in container.items())
            for name, text in programs.items():
                test = f"{name} reads {container.link.split('/')[-1]} after {changes}"
                if reason := obstacle(name, report["location"]):
                    print(f"ok - {test} # SKIP {reason}", flush=True)
                    results["skipped"] += 1
                    continue
                if name.startswith("sql-"):
                    text = asking(programs, name, account, container)
                text = without_network(text.replace(PRINTED_FOLDER, report["location"]), report["location"])
                try:
                    rows = counted(name, text)
                    found = [] if rows == expected else [f"read {rows}, expected {expected}"]
                except Exception as error:  # each library has its own
                    found = traceback.format_exception_only(error)
                print(f"{'not ok' if found else 'ok'} - {test}", *found, sep="\n    ", flush=True)
                results["fail" if found else "pass"] += 1
    if not obstacle(OVER_HTTP, report["location"]):
        found = broken_off(asking(programs, OVER_HTTP, account, container))
        print(f"{'not ok' if found else 'ok'} - an answer that breaks off raises an error", *found, sep="\n    ", flush=True)
        results["fail" if found else "pass"] += 1
    account.send("DELETE", "dbs", f"dbs/{database}")
    print(*(f"# {name} {results[name]}" for name in ["pass", "fail", "skipped"]), sep="\n")
    sys.exit(1 if results["fail"] or not results["pass"] else 0)


main()
