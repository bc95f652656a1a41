//! The limits of a schema with their default values.

use shardlake_analytical_table::rows::{BATCH_BYTES_MAX, Reason, Row, batches_of};
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_document::{Body, NESTING_CEILING, Value};

use crate::rounds::{Rounds, body, row};

const MODES: [SchemaMode; 3] = [
    SchemaMode::WellDefined,
    SchemaMode::FullFidelity { is_mongo: false },
    SchemaMode::FullFidelity { is_mongo: true },
];

fn after(mode: SchemaMode, rounds: Vec<Vec<Body>>) -> Rounds {
    let mut table = Rounds::new(mode, SchemaLimits::default(), &[]);
    for documents in rounds {
        table.round(documents);
    }
    table.check().unwrap();
    table
}

#[test]
fn a_table_has_a_thousand_properties() {
    let wide = |range: std::ops::Range<usize>| {
        let members = range.map(|number| (format!("p{number}"), Value::Int(number as i64)));
        Value::Object(members.collect()).to_body().unwrap()
    };
    for mode in MODES {
        let table = after(mode, vec![vec![wide(0..600)], vec![wide(500..1001), wide(999..1200)]]);
        assert_eq!(table.schema.property_count(), 1000);
        assert_eq!(table.schema.fields().len(), 1000);
        // p1000 of one document, p1000 to p1199 of the other.
        assert_eq!(table.overflow.count(Reason::Properties), 201);
        assert_eq!(table.overflow.total(), 201);
        assert_eq!(table.overflow.paths().len(), 20);
        assert_eq!(table.overflow.paths()[0], "/p1000");
    }
}

#[test]
fn types_nest_to_the_limit_and_no_deeper() {
    let nested = |levels: usize| {
        let (open, close) = (r#"{"x":1,"o":"#.repeat(levels - 1), "}".repeat(levels - 1));
        body(&format!(r#"{{"x":1,"o":{open}0{close}}}"#))
    };
    for (mode, depth) in MODES.into_iter().zip([32, 16, 16]) {
        let at_limit = after(mode, vec![vec![nested(depth)]]);
        assert_eq!(at_limit.overflow.total(), 0, "{mode:?}");
        let beyond = after(mode, vec![vec![nested(depth + 1)]]);
        assert_eq!(beyond.overflow.total(), 1, "{mode:?}");
        assert_eq!(beyond.overflow.count(Reason::Levels), 1, "{mode:?}");
        assert_eq!(beyond.overflow.paths(), ["/o".repeat(depth)], "{mode:?}");
        let deep = after(mode, vec![vec![nested(200)]]);
        assert_eq!((deep.overflow.total(), deep.overflow.paths().len()), (1, 1), "{mode:?}");
    }
}

#[test]
fn a_chain_that_ends_beyond_the_limit_makes_no_column() {
    for mode in MODES {
        let chain = format!("{}7{}", r#"{"o":"#.repeat(40), "}".repeat(40));
        let table = after(mode, vec![vec![body(&chain)]]);
        assert!(table.schema.fields().is_empty(), "{mode:?}");
        assert_eq!(table.overflow.count(Reason::Levels), 1, "{mode:?}");
        let lists = format!(r#"{{"l":{}7{}}}"#, "[".repeat(40), "]".repeat(40));
        let table = after(mode, vec![vec![body(&lists)]]);
        assert!(table.schema.fields().is_empty(), "{mode:?}");
    }
}

#[test]
fn names_have_255_bytes() {
    let document = |name: String| Value::Object(vec![(name, Value::Bool(true))]).to_body().unwrap();
    for (name, is_column) in [
        ("n".repeat(255), true),
        ("n".repeat(256), false),
        ("ü".repeat(127), true),
        ("ü".repeat(128), false),
        // An escape has seven bytes.
        (" ".repeat(36), true),
        (" ".repeat(37), false),
        (String::new(), false),
    ] {
        let table = after(SchemaMode::WellDefined, vec![vec![document(name.clone())]]);
        assert_eq!(table.schema.fields().len(), usize::from(is_column), "{name}");
        assert_eq!(table.overflow.count(Reason::Name), u64::from(!is_column), "{name}");
    }
}

#[test]
fn rows_are_divided_into_batches_by_bytes_and_by_number() {
    let large = Value::Object(vec![("t".to_owned(), Value::String("t".repeat(BATCH_BYTES_MAX / 4)))]);
    let (large, small) = (large.to_body().unwrap(), body(r#"{"a":1}"#));
    let lengths = |rows: &[Row<'_>]| batches_of(rows).map(<[Row<'_>]>::len).collect::<Vec<_>>();
    let rows: Vec<Row<'_>> = (0..7).map(|number| row(number, large.raw())).collect();
    assert_eq!(lengths(&rows), [3, 3, 1]);
    let rows: Vec<Row<'_>> = (0..65_540).map(|number| row(number, small.raw())).collect();
    assert_eq!(lengths(&rows), [65_536, 4]);
    assert_eq!(lengths(&rows[..1]), [1]);
    assert!(lengths(&[]).is_empty());
}

#[test]
fn the_deepest_documents_come_back() {
    for mode in MODES {
        for levels in [NESTING_CEILING - 1, NESTING_CEILING] {
            let mut value = Value::Double(0.5);
            for level in 1..levels {
                value = match level % 3 {
                    0 => Value::Array(vec![value]),
                    _ => Value::Object(vec![("o".to_owned(), value)]),
                };
            }
            let document = Value::Object(vec![("o".to_owned(), value)]).to_body().unwrap();
            let misfit = body(r#"{"o":{"o":7,"x":1}}"#);
            let table = after(mode, vec![vec![misfit, document.clone()], vec![document]]);
            assert_eq!(table.overflow.total(), 2, "{mode:?}");
        }
    }
}
