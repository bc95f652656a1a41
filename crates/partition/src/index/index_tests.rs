//! The index against a scan: random items, random filters and orders, a generation that is built while items
//! are written.

use std::sync::Arc;

use proptest::prelude::*;
use shardlake_charge::ChargeTable;
use shardlake_index::IndexLayout;
use shardlake_model::{ErrorKind, IndexingPolicy, Preconditions};
use shardlake_sql::ComputedProperties;
use shardlake_storage::{Shard, ShardOptions};

use crate::test_fixture::{Settings, TestContainer, block_on, container_of, identity};
use crate::{BuildEnd, ContainerSchema, Operation, Partition, verify_partition};

/// A value of a property, as JSON; `None` where the item lacks it.
fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        2 => Just(None),
        5 => (0..8i64).prop_map(|number| Some(number.to_string())),
        1 => (0..4i64).prop_map(|number| Some(format!("{number}.5"))),
        3 => "[ab]{0,2}".prop_map(|text| Some(format!("\"{text}\""))),
        1 => prop_oneof![Just("null"), Just("true"), Just("false"), Just("[1,2]"), Just(r#"{"x":1}"#)]
            .prop_map(|word| Some(word.to_owned())),
        1 => "[ab]{118,124}".prop_map(|text| Some(format!("\"{text}\""))),
    ]
}

#[derive(Debug, Clone)]
enum Write {
    /// The id, and the values of `a`, `b` and `c.d`.
    Upsert(u8, [Option<String>; 3]),
    Delete(u8),
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        5 => (0..40u8, [value(), value(), value()]).prop_map(|(id, values)| Write::Upsert(id, values)),
        1 => (0..40u8).prop_map(Write::Delete),
    ]
}

/// A condition of a query.
fn filter() -> impl Strategy<Value = String> {
    let property = prop_oneof![Just("c.a"), Just("c.b"), Just("c.c.d")];
    let literal = prop_oneof![
        4 => (0..8i64).prop_map(|number| number.to_string()),
        2 => "[ab]{0,2}".prop_map(|text| format!("'{text}'")),
        1 => Just("null".to_owned()),
        1 => Just("true".to_owned()),
    ];
    let operator = prop_oneof![Just("="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let leaf = prop_oneof![
        5 => (property.clone(), operator, literal.clone())
            .prop_map(|(property, operator, literal)| format!("{property} {operator} {literal}")),
        1 => property.clone().prop_map(|property| format!("IS_DEFINED({property})")),
        1 => property.clone().prop_map(|property| format!("IS_STRING({property})")),
        1 => (property.clone(), "[ab]{0,2}")
            .prop_map(|(property, text)| format!("STARTSWITH({property}, '{text}')")),
        1 => (property.clone(), literal.clone(), literal.clone())
            .prop_map(|(property, one, other)| format!("{property} IN ({one}, {other})")),
        1 => (property, 0..4i64, 0..5i64)
            .prop_map(|(property, low, more)| format!("({property} BETWEEN {low} AND {})", low + more)),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} AND {other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} OR {other})")),
            inner.prop_map(|inner| format!("NOT ({inner})")),
        ]
    })
}

fn json(id: u8, values: &[Option<String>; 3]) -> String {
    let [a, b, d] = values;
    let member = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!(r#","{name}":{value}"#)).unwrap_or_default()
    };
    let c = d.as_ref().map(|value| format!(r#","c":{{"d":{value}}}"#)).unwrap_or_default();
    let (a, b) = (member("a", a), member("b", b));
    format!(r#"{{"id":"{id:03}","pk":"p{}"{a}{b}{c}}}"#, id % 3)
}

struct Run {
    container: TestContainer,
    shard: Shard,
    partition: Arc<Partition>,
}

impl Run {
    async fn new() -> Run {
        let settings = Settings { default_ttl: None, is_unique: false, retention: None };
        let container = TestContainer::new(&settings);
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = container.open(&shard, &identity(3)).await;
        Run { container, shard, partition }
    }

    /// Writes an item with a schema, which decides the terms that are found out ahead.
    async fn write(&self, write: &Write, shape: &Arc<ContainerSchema>) {
        let preconditions = Preconditions::default();
        let (id, operation) = match write {
            Write::Upsert(id, values) => {
                let item = self.container.body_for(&json(*id, values), shape);
                (*id, Operation::Upsert { item, preconditions })
            }
            Write::Delete(id) => (*id, Operation::Delete { id: format!("{id:03}"), preconditions }),
        };
        let reply = self.container.execute(&self.partition, &format!("p{}", id % 3), vec![operation]).await;
        if let Err(failure) = reply.expect("answers").outcome {
            assert_eq!(failure.error.kind(), ErrorKind::NotFound, "{}", failure.error);
        }
    }

    /// Compares the answers of a schema's index with those of a scan.
    async fn compare(&self, filters: &[String], orders: &[&str], shape: &Arc<ContainerSchema>) {
        for filter in filters {
            let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
            let mut by_index = self.container.ids(&self.partition, &text, shape).await;
            let mut by_scan = self.container.ids(&self.partition, &text, &self.container.bare).await;
            by_index.sort();
            by_scan.sort();
            assert_eq!(by_index, by_scan, "{text}");
            let count = format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}");
            let counted = self.container.ids(&self.partition, &count, shape).await;
            assert_eq!(counted, [by_scan.len().to_string()], "{count}");
        }
        for order in orders {
            let property = order.trim_end_matches(" DESC");
            let text = format!("SELECT VALUE [{property}] FROM c ORDER BY {order}");
            let by_index = self.container.ids(&self.partition, &text, shape).await;
            let by_scan = self.container.ids(&self.partition, &text, &self.container.bare).await;
            assert_eq!(by_index, by_scan, "{text}");
        }
    }
}

async fn answers_are_those_of_a_scan(before: Vec<Write>, meanwhile: Vec<Write>, filters: Vec<String>) {
    let run = Run::new().await;
    let shape = run.container.shape.clone();
    for write in &before {
        run.write(write, &shape).await;
    }
    run.compare(&filters, &["c.a", "c.a DESC", "c.c.d", "c.b DESC"], &shape).await;
    // Another generation, which leaves a path out, is built while writes go on.
    let mut definition = run.container.definition.clone();
    definition.indexing_policy = IndexingPolicy {
        excluded_paths: vec![shardlake_model::ExcludedPath { path: "/b/?".to_owned() }],
        ..definition.indexing_policy
    };
    let policy = &definition.indexing_policy;
    let layout = IndexLayout::new(2, policy, ComputedProperties::default()).expect("compiles").map(Arc::new);
    let schema = |serving: &Option<Arc<IndexLayout>>, building: &Option<Arc<IndexLayout>>| {
        let layouts = (serving.clone(), building.clone());
        let container = container_of(definition.clone());
        let shape = ContainerSchema::new(&container, layouts, Arc::default(), ChargeTable::default());
        Arc::new(shape.expect("a plain container"))
    };
    let both = schema(&shape.serving, &layout);
    run.partition.maintain_indexes(both.maintained()).await.expect("kept");
    let (half, rest) = meanwhile.split_at(meanwhile.len() / 2);
    for write in half {
        run.write(write, &both).await;
    }
    let built = run.partition.build_index(&both, layout.as_ref().expect("an index"), &|_| ()).await;
    assert_eq!(built.expect("built"), BuildEnd::Complete);
    let next = schema(&layout, &None);
    run.partition.maintain_indexes(next.maintained()).await.expect("kept");
    run.partition.retire_indexes_below(2);
    run.partition.drop_indexes_below(2, &[]).await.expect("dropped");
    for write in rest {
        run.write(write, &next).await;
    }
    run.compare(&filters, &["c.a DESC", "c.c.d"], &next).await;
    let report = verify_partition(&run.shard, &identity(3), &next, &|_| ()).await.expect("readable");
    assert_eq!(report.problems, Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_answers_of_the_index_are_those_of_a_scan(
        before in prop::collection::vec(write(), 0..60),
        meanwhile in prop::collection::vec(write(), 0..40),
        filters in prop::collection::vec(filter(), 4..8),
    ) {
        block_on(answers_are_those_of_a_scan(before, meanwhile, filters));
    }
}
