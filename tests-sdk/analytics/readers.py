"""Reads analytical tables with other engines and compares every row with the expected ones.

    readers.py FOLDER [--reader duckdb|polars|delta-rs|spark ...] [--refuse-writes] [--checkpoint]

The output is that of the Test Anything Protocol. FOLDER has a table NAME/ and its rows in NAME.jsonl for each case, as the example `write_tables` of
crates/analytical-table writes them. Counts and a filter are compared on their own, because engines
answer them from statistics. NULL columns and members are left out on both sides.
"""

import argparse
import json
import pathlib
import sys


def plain(value):
    """Without null members and empty objects."""
    if isinstance(value, dict):
        members = {name: plain(member) for name, member in value.items()}
        members = {name: member for name, member in members.items() if member is not None}
        return members or None
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return value


class DuckDb:
    def __init__(self):
        import duckdb
        import duckdb_extension_delta

        folder = pathlib.Path(duckdb_extension_delta.__file__).parent
        extension = next(folder.rglob("*.duckdb_extension"))
        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self.connection.execute(f"LOAD '{extension}'")

    def rows(self, table):
        cursor = self.connection.execute(f"SELECT * FROM delta_scan('{table}')")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def count(self, table):
        return self.connection.execute(f"SELECT count(*) FROM delta_scan('{table}')").fetchone()[0]

    def filtered(self, table, least, column="_lsn"):
        query = f"SELECT count(*), min(_rid) FROM delta_scan('{table}') WHERE {column} >= {least}"
        return self.connection.execute(query).fetchone()


class Polars:
    def rows(self, table):
        import polars

        return polars.scan_delta(str(table)).collect().to_dicts()

    def count(self, table):
        import polars

        return polars.scan_delta(str(table)).select(polars.len()).collect().item()

    def filtered(self, table, least, column="_lsn"):
        import polars

        name, *fields = column.split(".")
        chosen = polars.col(name)
        for field in fields:
            chosen = chosen.struct.field(field)
        frame = polars.scan_delta(str(table)).filter(chosen >= least)
        return frame.select(polars.len(), polars.col("_rid").min()).collect().row(0)


class DeltaRs:
    def query(self, table, text):
        from deltalake import DeltaTable, QueryBuilder

        batches = QueryBuilder().register("t", DeltaTable(str(table))).execute(text)
        if hasattr(batches, "read_all"):
            batches = batches.read_all()
        import pyarrow

        return pyarrow.table(batches).to_pylist()

    def rows(self, table):
        return self.query(table, "SELECT * FROM t")

    def count(self, table):
        return self.query(table, "SELECT count(*) AS n FROM t")[0]["n"]

    def filtered(self, table, least, column="_lsn"):
        name, *fields = column.split(".")
        chosen = "".join([name, *(f"['{field}']" for field in fields)])
        row = self.query(table, f"SELECT count(*) AS n, min(_rid) AS rid FROM t WHERE {chosen} >= {least}")[0]
        return row["n"], row["rid"]


class Spark:
    """Needs Java 17 or 11, pyspark 3.5.7 and a minute: chosen with --reader spark only."""

    def __init__(self):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        for name, value in {
            "spark.jars.packages": "io.delta:delta-spark_2.12:3.3.2,io.delta:delta-storage:3.3.2",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            # A name with an upper and one with a lower case are two columns of a container.
            "spark.sql.caseSensitive": "true",
        }.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")

    def frame(self, table):
        return self.session.read.format("delta").load(str(table))

    def rows(self, table):
        return [row.asDict(recursive=True) for row in self.frame(table).collect()]

    def count(self, table):
        return self.frame(table).count()

    def filtered(self, table, least, column="_lsn"):
        from pyspark.sql import functions

        frame = self.frame(table).filter(functions.col(column) >= least)
        return tuple(frame.agg(functions.count("*"), functions.min("_rid")).collect()[0])


READERS = {"duckdb": DuckDb, "polars": Polars, "delta-rs": DeltaRs, "spark": Spark}


def differences(reader, table, expected):
    """Sentences about the differences, at most ten."""
    found = []
    rows = {}
    for row in reader.rows(table):
        row = plain(row)
        if row["_rid"] in rows:
            found.append(f"{row['_rid']} is there twice")
        rows[row["_rid"]] = row
    for rid in sorted(rows.keys() | expected.keys()):
        if rows.get(rid) != expected.get(rid):
            found.append(f"{rid}: read {rows.get(rid)}, expected {expected.get(rid)}")
    if reader.count(table) != len(expected):
        found.append(f"counted {reader.count(table)} of {len(expected)} rows")
    lsns = sorted(row["_lsn"] for row in expected.values())
    if lsns:
        least = lsns[len(lsns) // 2]
        chosen = [rid for rid, row in expected.items() if row["_lsn"] >= least]
        if tuple(reader.filtered(table, least)) != (len(chosen), min(chosen)):
            found.append(f"a filter found {reader.filtered(table, least)} of {len(chosen)} rows")
    return found[:10]


def accepted_writes(table):
    """Names of the writes that delta-rs does not refuse."""
    import pyarrow
    from deltalake import DeltaTable, write_deltalake

    def append():
        rows = pyarrow.table({"_rid": ["x"], "_ts": [1], "id": ["x"], "_etag": ["x"], "_lsn": [1]})
        write_deltalake(str(table), rows, mode="append")

    def vacuum():
        return DeltaTable(str(table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def delete():
        DeltaTable(str(table)).delete()

    def compact():
        DeltaTable(str(table)).optimize.compact()

    before = sorted(table.rglob("*"))
    accepted = []
    for write in [append, vacuum, delete, compact]:
        try:
            # A vacuum without files to delete is none.
            if write() != []:
                accepted.append(write.__name__)
        except Exception as error:  # the class differs by version
            if "shardlake" not in str(error):
                accepted.append(f"{write.__name__}: {error}")
    if sorted(table.rglob("*")) != before:
        accepted.append("files changed")
    return accepted


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--reader", action="append", choices=READERS)
    arguments.add_argument("--refuse-writes", action="store_true")
    arguments.add_argument("--checkpoint", action="store_true", help="let delta-rs write a checkpoint last")
    arguments = arguments.parse_args()
    cases = sorted(arguments.folder.glob("*.jsonl"))
    results = []
    for name in arguments.reader or ["duckdb", "polars", "delta-rs"]:
        reader = READERS[name]()
        for case in cases:
            lines = case.read_text().splitlines()
            expected = {row["_rid"]: row for row in map(json.loads, lines)}
            found = differences(reader, case.with_suffix("").resolve(), expected)
            report(results, f"{name} reads {len(expected)} rows of {case.stem}", found)
    for case in cases if arguments.refuse_writes else []:
        report(results, f"delta-rs may not write {case.stem}", accepted_writes(case.with_suffix("")))
    if arguments.checkpoint:
        from deltalake import DeltaTable

        for case in cases:
            DeltaTable(str(case.with_suffix(""))).create_checkpoint()
    failed = results.count(False)
    print(f"# pass {results.count(True)}\n# fail {failed}\n# skipped 0")
    sys.exit(1 if failed or not results else 0)


def report(results, test, found):
    print(f"{'not ok' if found else 'ok'} - {test}", *found, sep="\n    ", flush=True)
    results.append(not found)


if __name__ == "__main__":
    main()
