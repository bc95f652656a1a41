//! Widening of a column: wanted by inference, refused or done by the table, which rewrites its batches.

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Float64Type;
use shardlake_analytical_table::rows::{document_of, shred, with_doubles};
use shardlake_analytical_table::schema::{
    ColumnPath, ColumnType, Learned, Scalar, SchemaLimits, SchemaMode, TableSchema,
};
use shardlake_document::Body;

use crate::rounds::{body, row};

fn schema() -> TableSchema {
    TableSchema::new::<&str>(SchemaMode::WellDefined, SchemaLimits::default(), &[])
}

fn learn(schema: &mut TableSchema, documents: &[Body]) -> Learned {
    schema.learn(documents.iter().map(Body::raw))
}

fn path(text: &str) -> ColumnPath {
    ColumnPath { names: text.split('.').map(str::to_owned).collect() }
}

#[test]
fn inference_reports_each_wanted_widening_once() {
    let mut schema = schema();
    let first = body(r#"{"p":1,"o":{"a b":[[{"q":2}]]},"d":0.5,"s":"x"}"#);
    let learned = learn(&mut schema, &[first]);
    assert_eq!(learned, Learned { added: 6, widenings: vec![] });
    let documents = [
        body(r#"{"p":1.5,"o":{"a b":[[{"q":3.5},{"q":4.5}]]},"d":1,"s":0.5,"new":1}"#),
        body(r#"{"p":2.5,"new":0.5}"#),
    ];
    let learned = learn(&mut schema, &documents);
    assert_eq!(learned.added, 1);
    let wanted: Vec<String> = learned.widenings.iter().map(ToString::to_string).collect();
    assert_eq!(wanted, ["p", "o.a_x0020_b.element.element.q"]);
    assert_eq!(schema.type_at(&path("new")), Some(&ColumnType::Scalar(Scalar::Double)));
    // Until the table widens, every round wants it again.
    assert_eq!(learn(&mut schema, &documents).widenings, learned.widenings);
    for path in &learned.widenings {
        assert!(schema.widen(path));
        assert_eq!(schema.type_at(path), Some(&ColumnType::Scalar(Scalar::Double)));
        assert!(!schema.widen(path), "a double column stays");
    }
    assert_eq!(learn(&mut schema, &documents).widenings, []);
}

#[test]
fn only_long_columns_widen() {
    let mut schema = schema();
    learn(&mut schema, &[body(r#"{"s":"x","o":{"n":1},"l":[1]}"#)]);
    let before = schema.clone();
    for name in ["s", "o", "l", "none", "o.none", "l.n", "s.element", "_ts", "_lsn"] {
        assert!(!schema.widen(&path(name)), "{name}");
    }
    assert!(!schema.widen(&ColumnPath { names: vec![] }));
    assert_eq!(schema, before);
}

#[test]
fn parquet_has_one_more_level_in_lists() {
    let mut schema = schema();
    learn(&mut schema, &[body(r#"{"p":1,"o":{"l":[[{"element":1}]]}}"#)]);
    let parquet = |name: &str| schema.parquet_path(&path(name)).map(|names| names.join("."));
    assert_eq!(parquet("p").as_deref(), Some("p"));
    assert_eq!(
        parquet("o.l.element.element.element").as_deref(),
        Some("o.l.list.element.list.element.element")
    );
    assert_eq!(parquet("o.x"), None);
}

#[test]
fn batches_are_rewritten_exactly() {
    let mut schema = schema();
    let documents = [
        body(r#"{"a":9007199254740992,"l":[{"q":-9007199254740992},null,{}],"b":1}"#),
        body(r#"{"l":[],"b":2}"#),
    ];
    learn(&mut schema, &documents);
    let rows = [row(0, documents[0].raw()), row(1, documents[1].raw())];
    let batch = shred(&schema, &rows).batch;
    let widened = with_doubles(&with_doubles(&batch, &path("l.element.q")), &path("a"));
    for name in ["a", "l.element.q"] {
        assert!(schema.widen(&path(name)));
    }
    for name in ["a", "l"] {
        let (whole, part) = (schema.arrow(), widened.schema());
        assert_eq!(part.field_with_name(name).unwrap(), whole.field_with_name(name).unwrap());
    }
    assert_eq!(document_of(&schema, &widened, 1).unwrap().to_json().unwrap(), r#"{"l":[],"b":2}"#);
    let a = widened.column_by_name("a").unwrap().as_primitive::<Float64Type>();
    assert_eq!((a.value(0), a.is_null(1)), (9007199254740992.0, true));
    assert_eq!(widened.column_by_name("b"), batch.column_by_name("b"));
    // Nothing is left to do.
    assert_eq!(with_doubles(&widened, &path("a")), widened);
    assert_eq!(with_doubles(&widened, &path("none.x")), widened);
}

#[test]
#[should_panic(expected = "statistics show")]
fn an_integer_that_no_double_equals_is_never_rounded() {
    let mut schema = schema();
    let document = body(r#"{"a":9007199254740993}"#);
    learn(&mut schema, std::slice::from_ref(&document));
    let batch = shred(&schema, &[row(0, document.raw())]).batch;
    with_doubles(&batch, &path("a"));
}

#[test]
fn texts_that_are_no_schema_are_refused() {
    let of = |text: &str, mode| {
        TableSchema::of_delta::<&str>(text, mode, SchemaLimits::default(), &[])
            .map_err(|error| error.to_string())
    };
    let full = SchemaMode::FullFidelity { is_mongo: false };
    let with =
        |field: &str| schema().delta().replace(r#"{"name":"_lsn""#, &format!(r#"{field},{{"name":"_lsn""#));
    let void = with(r#"{"name":"a","type":"void","nullable":true,"metadata":{}}"#);
    let empty = with(r#"{"name":"a","type":{"type":"struct","fields":[]},"nullable":true,"metadata":{}}"#);
    let long = with(r#"{"name":"a","type":"long","nullable":true,"metadata":{}}"#);
    let twice = with(r#"{"name":"a","type":"long"},{"name":"A","type":"long"}"#);
    assert!(of(&long, SchemaMode::WellDefined).is_ok());
    assert!(of(&schema().delta(), full).is_ok());
    for (text, mode, words) in [
        ("{", SchemaMode::WellDefined, "EOF"),
        ("{}", SchemaMode::WellDefined, "fields is missing"),
        (r#"{"type":"struct","fields":[]}"#, SchemaMode::WellDefined, "system columns are missing"),
        (&void, SchemaMode::WellDefined, "void"),
        (&empty, SchemaMode::WellDefined, "without fields"),
        (&twice, SchemaMode::WellDefined, "two columns of one name: A"),
        (&long, full, "fields is missing"),
    ] {
        let error = of(text, mode).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
