//! Statements: joins, nested values, parameters, names, forms of answers, and errors with their places.

use serde_json::{Value, json};
use shardlake_analytics_sql::{FailureKind, Format, Query};

use crate::fixture::{self, Change};
use crate::support::{Shop, answered, listed, pool, query, read, rows, runtime, table, text_of};

fn orders() -> Shop {
    Shop::new((0..10).map(|at| {
        json!({
            "id": format!("o{at}"),
            "pk": format!("p{}", at % 2),
            "customerId": format!("c{}", at % 3),
            "total": f64::from(at) + 0.5,
            "lines": [{ "sku": "a", "quantity": at }, { "sku": "b", "quantity": 1 }],
            "ship": { "city": "Ulm" },
        })
    }))
}

fn with(mut query: Query, parameters: Value) -> Query {
    query.parameters = parameters.as_object().unwrap().clone();
    query
}

#[test]
fn aggregates_windows_and_nested_values() {
    let shop = orders();
    for (statement, expected) in [
        (
            "SELECT pk, count(*), sum(total) FROM c GROUP BY 1 ORDER BY 1",
            json!([["p0", 5, 22.5], ["p1", 5, 27.5]]),
        ),
        ("SELECT COUNT(*) AS n, MAX(customerId) FROM c", json!([[10, "c2"]])),
        (
            "SELECT line['sku'], sum(line['quantity']) FROM (SELECT unnest(lines) AS line FROM c) GROUP BY 1 ORDER BY 1",
            json!([["a", 45], ["b", 10]]),
        ),
        ("SELECT DISTINCT ship['city'] FROM shop.c", json!([["Ulm"]])),
        (
            "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY pk ORDER BY total DESC) AS r FROM c) WHERE r = 1 ORDER BY id",
            json!([["o8"], ["o9"]]),
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n) FROM t",
            json!([[10]]),
        ),
        ("SELECT json_get_int('{\"a\": 7}', 'a')", json!([[7]])),
        (
            "SELECT id FROM c WHERE EXISTS (SELECT 1 FROM c AS d WHERE d.total > c.total + 8) ORDER BY 1",
            json!([["o0"]]),
        ),
        ("SELECT 1, 'a', NULL, true", json!([[1, "a", null, true]])),
        (
            "SELECT lines[1], ship FROM c WHERE id = 'o3'",
            json!([[{ "sku": "a", "quantity": 3 }, { "city": "Ulm" }]]),
        ),
        ("SELECT CAST('NaN' AS DOUBLE), 1e308 * 10, -1e308 * 10", json!([["NaN", "Infinity", "-Infinity"]])),
        ("SELECT id FROM c ORDER BY id LIMIT 2", json!([["o0"], ["o1"]])),
    ] {
        assert_eq!(shop.rows(statement), expected, "{statement}");
    }
}

#[test]
fn tables_of_several_containers_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let mut customers = table(folder.path(), "customer", fixture::options());
    let item =
        |at: u64| Change::Put(at, json!({ "id": format!("c{at}"), "pk": "p", "name": format!("n{at}") }));
    customers.round(&[item(1), item(2)]).unwrap();
    let mut sales = table(folder.path(), "odd name", fixture::options());
    let sale = |at: u64| {
        Change::Put(
            at,
            json!({ "id": format!("s{at}"), "pk": "p", "customerId": format!("c{}", at % 2 + 1) }),
        )
    };
    sales.round(&[sale(1), sale(2), sale(3)]).unwrap();
    let tables = [listed(folder.path(), "customer"), listed(folder.path(), "odd name")];
    let (pool, runtime) = (pool(folder.path()), runtime());
    let joined = "SELECT c.name, count(*) FROM shop.customer c JOIN shop.\"odd name\" s ON s.\"customerId\" = c.id GROUP BY 1 ORDER BY 1";
    let answer = runtime.block_on(answered(&pool, query(joined, &tables))).unwrap();
    assert_eq!(answer["rows"], json!([["n1", 1], ["n2", 2]]));
    assert_eq!(
        answer["columns"],
        json!([{ "name": "name", "type": "string" }, { "name": "count(*)", "type": "long" }])
    );
    assert_eq!(answer["snapshot"]["shop/customer"]["version"], 1);
    assert_eq!(answer["snapshot"]["shop/odd name"]["places"][0]["lsn"], 3);
    assert!(answer["statistics"]["bytesRead"].as_u64() > Some(0), "{answer}");
    let shown = rows(&pool, &runtime, query("SHOW TABLES", &tables)).to_string();
    assert!(shown.contains("customer") && shown.contains("odd name"), "{shown}");
    let described = rows(&pool, &runtime, query("DESCRIBE customer", &tables)).to_string();
    assert!(described.contains("_rest") && described.contains("name"), "{described}");
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'customer' ORDER BY ordinal_position";
    let columns = rows(&pool, &runtime, query(columns, &tables));
    assert_eq!(columns.as_array().unwrap().len(), 8, "{columns}");
    let explained =
        rows(&pool, &runtime, query("EXPLAIN SELECT id FROM customer WHERE pk = 'p'", &tables)).to_string();
    assert!(explained.contains("pk") && explained.contains("DataSourceExec"), "{explained}");
}

#[test]
fn parameters_are_values_and_never_text() {
    let shop = orders();
    for (statement, parameters, expected) in [
        ("SELECT count(*) FROM c WHERE pk = $p AND total > $t", json!({ "p": "p1", "t": 4 }), json!([[3]])),
        ("SELECT count(*) FROM c WHERE pk = $p", json!({ "p": "p1' OR 'a' = 'a" }), json!([[0]])),
        (
            "SELECT count(*) FROM c WHERE array_has($ids, id)",
            json!({ "ids": ["o1", "o2", "x"] }),
            json!([[2]]),
        ),
        ("SELECT $n + 1", json!({ "n": 9_007_199_254_740_993_i64 }), json!([[9_007_199_254_740_994_i64]])),
        ("SELECT $n IS NULL", json!({ "n": null }), json!([[true]])),
    ] {
        let found = rows(&shop.pool, &shop.runtime, with(shop.query(statement), parameters));
        assert_eq!(found, expected, "{statement}");
    }
    let missing = shop.failure(shop.query("SELECT $nothing"));
    assert!(missing.kind == FailureKind::Statement && missing.message.contains("nothing"), "{missing:?}");
}

#[test]
fn every_form_has_the_same_rows() {
    let shop = Shop::new([
        json!({ "id": "a", "pk": "", "n": 9_007_199_254_740_993_i64, "t": "x,\"y\"\nz", "l": [1, null], "d": 0.5 }),
        json!({ "id": "b", "pk": "p", "d": 3.0 }),
    ]);
    let statement = "SELECT id, pk, n, t, l, d FROM c ORDER BY id";
    let text = |format, bigints_as_text| {
        let asked = Query { format, bigints_as_text, ..shop.query(statement) };
        shop.runtime.block_on(text_of(&shop.pool, asked)).unwrap()
    };
    assert!(
        text(Format::Json, false).starts_with(
            r#"{"columns":[{"name":"id","type":"string"},{"name":"pk","type":"string"},{"name":"n","type":"long"},{"name":"t","type":"string"},{"name":"l","type":"list<long>"},{"name":"d","type":"double"}],"rows":[["a","",9007199254740993,"x,\"y\"\nz",[1,null],0.5],["b","p",null,null,null,3.0]],"snapshot":{"#
        ),
        "{}",
        text(Format::Json, false)
    );
    let lines = text(Format::JsonLines, true);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({ "id": "a", "pk": "", "n": "9007199254740993", "t": "x,\"y\"\nz", "l": ["1", null], "d": 0.5 })
    );
    assert_eq!(
        text(Format::Csv, false),
        "id,pk,n,t,l,d\na,\"\",9007199254740993,\"x,\"\"y\"\"\nz\",\"[1,null]\",0.5\nb,p,,,,3.0\n"
    );
    let arrow = Query { format: Format::ArrowStream, ..shop.query(statement) };
    let (bytes, statistics) =
        shop.runtime.block_on(async { read(shop.pool.run(arrow).await.unwrap()).await }).unwrap();
    let stream = datafusion::arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
    let batches: Vec<_> = stream.map(|batch| batch.unwrap()).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    assert_eq!(batches[0].schema().field(2).name(), "n");
    assert_eq!(statistics.rows, 2);
}

#[test]
fn an_empty_answer_has_its_columns() {
    let shop = orders();
    let text = |format| {
        let asked = Query { format, ..shop.query("SELECT id, total FROM c WHERE id = 'none'") };
        shop.runtime.block_on(text_of(&shop.pool, asked)).unwrap()
    };
    assert!(text(Format::Json).contains(r#""type":"double"}],"rows":[],"snapshot""#));
    assert_eq!(text(Format::Csv), "id,total\n");
    assert_eq!(text(Format::JsonLines), "");
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    let shop = orders();
    for (statement, words) in [
        ("SELECT customerid FROM c", "customerId"),
        ("SELECT c.Total FROM c", "total"),
        ("SELECT totl FROM c", "total"),
        ("SELECT nothing_alike FROM c", "DESCRIBE"),
        ("SELECT 1 FROM C", "write"),
        ("SELECT 1 FROM Shop.c", "shop"),
        ("SELECT 1 FROM shop.nothing", "shop.nothing"),
    ] {
        let failure = shop.failure(shop.query(statement));
        assert_eq!(failure.kind, FailureKind::Statement, "{statement}: {failure:?}");
        assert!(crate::support::words(&failure).contains(words), "{statement}: {failure:?}");
    }
    let elsewhere = shop.failure(shop.query("SELECT 1 FROM bank.c"));
    assert_eq!(elsewhere.kind, FailureKind::Statement, "{elsewhere:?}");
    let without = shop.failure(Query { database: None, ..shop.query("SELECT 1 FROM c") });
    assert!(crate::support::words(&without).contains("database"), "{without:?}");
    let named = Query { database: None, ..shop.query("SELECT count(*) FROM shop.c") };
    assert_eq!(rows(&shop.pool, &shop.runtime, named), json!([[10]]));
}

#[test]
fn errors_have_line_and_column() {
    let shop = orders();
    for (statement, line, column) in
        [("SELECT id\nFROM c WHERE", 2, 13), ("SELECT id,\n  totl FROM c", 2, 3), ("SELECT 'open", 1, 8)]
    {
        let failure = shop.failure(shop.query(statement));
        assert_eq!((failure.line, failure.column), (Some(line), Some(column)), "{statement}: {failure:?}");
    }
}
