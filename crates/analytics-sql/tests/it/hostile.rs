//! Hostile statements: each is refused, or ends within its limit, and leaves no process behind.

use std::time::Duration;

use serde_json::json;
use shardlake_analytics_sql::{FailureKind, Limits, Query};

use crate::support::{LIMITS, Shop, pool_with, settled, text_of};

/// Statements that must not be answered.
fn refused() -> Vec<String> {
    let mut statements: Vec<String> = [
        "COPY c TO '/tmp/stolen.csv'",
        "COPY (SELECT * FROM c) TO '/tmp/stolen.parquet' STORED AS PARQUET",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE EXTERNAL TABLE t (a VARCHAR) STORED AS CSV LOCATION 'http://127.0.0.1/a.csv'",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM \"/etc/passwd\"",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM shop.\"../../etc/passwd\"",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT load_file('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SET datafusion.execution.target_partitions = 1000000",
        "SET datafusion.runtime.memory_limit = '100T'",
        "RESET ALL",
        "SHOW ALL",
        "CREATE TABLE t AS SELECT * FROM c",
        "CREATE VIEW v AS SELECT * FROM c",
        "CREATE FUNCTION f(a INT) RETURNS INT RETURN a",
        "SELECT * INTO stolen FROM c",
        "INSERT INTO c VALUES ('x')",
        "INSERT INTO c SELECT * FROM c",
        "UPDATE c SET n = 1",
        "DELETE FROM c",
        "TRUNCATE TABLE c",
        "DROP TABLE c",
        "ALTER TABLE c ADD COLUMN x INT",
        "MERGE INTO c USING c AS d ON c.id = d.id WHEN MATCHED THEN DELETE",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "EXPLAIN ANALYZE INSERT INTO c SELECT * FROM c",
        "EXPLAIN COPY c TO '/tmp/stolen.csv'",
        "WITH x AS (DELETE FROM c RETURNING *) SELECT * FROM x",
        "SELECT 1; DROP TABLE c",
        "ATTACH DATABASE '/etc/passwd' AS x",
        "INSTALL httpfs",
        "VACUUM",
        "CALL system('id')",
    ]
    .map(str::to_owned)
    .to_vec();
    statements.push(format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)));
    statements.push(format!("SELECT {}1", "-".repeat(100_001).replace("--", "- ")));
    statements.push(format!("SELECT {}", "NOT ".repeat(50_000) + "true"));
    statements
}

/// Statements that need more time or memory than they have.
const ENDLESS: [&str; 8] = [
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t ORDER BY n",
    "SELECT count(*) FROM c a, c b, c d, c e, c f, c g WHERE a.n + b.n + d.n + e.n + f.n + g.n < 0",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT repeat('a', 2000000000) || repeat('b', 2000000000)",
    "SELECT array_agg(a.value) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    "SELECT sum(a.value) OVER (ORDER BY b.value) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    "SELECT count(*) FROM c WHERE regexp_like(repeat(id, 100000), '(a*)*(a*)*(a*)*(b|c|d)*x')",
];

fn shop() -> Shop {
    Shop::new((0..200).map(|at| json!({ "id": format!("i{at}"), "pk": "p", "n": at })))
}

#[test]
fn statements_that_do_more_than_read_are_refused() {
    let shop = shop();
    let statements = refused();
    assert!(statements.len() >= 40);
    for statement in statements {
        let failure = shop.failure(shop.query(&statement));
        let shown = &statement[..statement.len().min(80)];
        assert!(
            matches!(failure.kind, FailureKind::Statement | FailureKind::NotEnabled),
            "{shown}: {failure:?}"
        );
        assert!(!failure.message.contains("root:"), "{shown}: {failure:?}");
    }
    assert!(!std::path::Path::new("/tmp/stolen.csv").exists());
    assert!(!std::path::Path::new("/tmp/stolen.parquet").exists());
    assert_eq!(shop.rows("SELECT count(*) FROM c"), json!([[200]]));
}

#[test]
fn statements_without_end_are_ended_by_a_limit() {
    let shop = shop();
    let limits = Limits { memory_bytes: 64 << 20, spill_bytes: 64 << 20, ..LIMITS };
    let pool = pool_with(shop.folder.path(), limits, 1, 16);
    for statement in ENDLESS {
        let asked = Query { time: Duration::from_secs(3), ..shop.query(statement) };
        let ended = shop.runtime.block_on(text_of(&pool, asked));
        let is_bounded = match &ended {
            Ok(text) => text.len() < 10_000,
            Err(failure) => matches!(
                failure.kind,
                FailureKind::TimedOut
                    | FailureKind::NeedsTooMuch
                    | FailureKind::TooLarge
                    | FailureKind::Statement
            ),
        };
        assert!(is_bounded, "{statement}: {ended:?}");
        assert!(pool.running().is_empty(), "{statement}");
    }
    let wide = (0..100_000).map(|at| format!("{at} AS a{at}")).collect::<Vec<_>>().join(",");
    let asked = Query { time: Duration::from_secs(3), ..shop.query(&format!("SELECT {wide} FROM c")) };
    let ended = shop.runtime.block_on(text_of(&pool, asked));
    assert!(ended.as_ref().is_ok_and(|text| text.len() < 256 << 20) || ended.is_err(), "100,000 columns");
    drop(pool);
    // Killed workers are reaped, and their files deleted.
    settled(shop.folder.path(), 0);
}
