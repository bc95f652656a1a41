// Programs that read a table, as docs/analytics.md prints them, with the table's own folder and a column that it has.

import type { TableColumn } from "../../client/analytics";

export interface Snippet {
  reader: string;
  text: string;
}

const GROUPED = ["string", "long", "boolean"];
const OWN = new Set(["_rid", "_ts", "id", "_etag", "_lsn", "_rest"]);

/** A column to count rows by: `type`, else the first one with plain values, else `id`. */
export function groupedColumn(columns: TableColumn[]): string {
  const fitting = columns.filter(
    ({ name, type }) => GROUPED.includes(type) && !OWN.has(name) && /^[A-Za-z]\w*$/.test(name),
  );
  return (fitting.find(({ name }) => name === "type") ?? fitting[0])?.name ?? "id";
}

export function snippets(folder: string, column: string): Snippet[] {
  // The text of a Python string in double quotes, and of an SQL string within one.
  const python = JSON.stringify(folder);
  const sql = python.slice(1, -1).replaceAll("'", "''");
  return [
    {
      reader: "DuckDB",
      text: [
        "import duckdb",
        "con = duckdb.connect()",
        'con.execute("INSTALL delta; LOAD delta")  # offline: LOAD the file of the package duckdb-extension-delta',
        `rows = con.sql("SELECT ${column}, count(*) FROM delta_scan('${sql}') GROUP BY ALL").fetchall()`,
      ].join("\n"),
    },
    {
      reader: "Polars",
      text: [
        "import polars as pl",
        `rows = pl.scan_delta(${python}).group_by("${column}").len().collect().rows()`,
      ].join("\n"),
    },
    {
      reader: "delta-rs",
      text: [
        "from deltalake import DeltaTable, QueryBuilder",
        `query = QueryBuilder().register("c", DeltaTable(${python}))`,
        `rows = query.execute("SELECT ${column}, count(*) AS n FROM c GROUP BY ${column}").read_all()`,
      ].join("\n"),
    },
    {
      reader: "Spark",
      text: [
        "from pyspark.sql import SparkSession",
        'spark = (SparkSession.builder.config("spark.jars.packages", "io.delta:delta-spark_2.12:3.3.2")',
        '         .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")',
        '         .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate())',
        `rows = spark.read.format("delta").load(${python}).groupBy("${column}").count().collect()`,
      ].join("\n"),
    },
  ];
}
