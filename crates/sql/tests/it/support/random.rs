//! Random items and a grammar of queries over them.

use std::fmt;

use proptest::prelude::*;
use shardlake_document::Value;

/// Few different values of every type, among them strings that are alike for longer than a state keeps them.
pub fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        6 => (-2..4i64).prop_map(Value::Int),
        1 => Just(Value::Double(1.5)),
        1 => Just(Value::Int(i64::MAX)),
        4 => "[ab😀]{0,2}".prop_map(Value::String),
        4 => "[ab]{0,2}".prop_map(|end| Value::String(format!("{}{end}", "é".repeat(99)))),
        2 => "[ab]{0,2}".prop_map(|end| Value::String(format!("{}{end}", "l".repeat(401)))),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Undefined),
        12 => scalar(),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(Value::Array),
        1 => scalar().prop_map(|value| Value::Object(vec![("m".into(), value)])),
    ]
}

fn item() -> impl Strategy<Value = Value> {
    (value(), value(), prop::option::of(-3..20i64), prop::collection::vec(-1..3i64, 0..4)).prop_map(
        |(a, b, n, tags)| {
            let mut members = vec![("a".to_owned(), a), ("b".to_owned(), b)];
            members.extend(n.map(|n| ("n".to_owned(), Value::Int(n))));
            members.push(("tags".to_owned(), Value::Array(tags.into_iter().map(Value::Int).collect())));
            Value::Object(members)
        },
    )
}

/// Items that are shown as JSON.
#[derive(Clone)]
pub struct RandomItems(pub Vec<Value>);

impl fmt::Debug for RandomItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|item| write!(f, "{} ", item.to_json().unwrap()))
    }
}

/// Items with an `id` each.
pub fn items(count: usize) -> impl Strategy<Value = RandomItems> {
    prop::collection::vec(item(), 0..count).prop_map(|mut items| {
        for (index, item) in items.iter_mut().enumerate() {
            let Value::Object(members) = item else { continue };
            members.insert(0, ("id".into(), Value::String(format!("i{index}"))));
        }
        RandomItems(items)
    })
}

/// A query in parts.
#[derive(Clone)]
pub struct RandomQuery {
    pub distinct: bool,
    pub top: Option<u64>,
    pub selection: String,
    pub from: String,
    pub filter: String,
    pub group_by: String,
    pub order_by: String,
    pub offset_limit: Option<(u64, u64)>,
}

impl fmt::Debug for RandomQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl RandomQuery {
    pub fn text(&self) -> String {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let top = self.top.map(|top| format!("TOP {top} ")).unwrap_or_default();
        let cut = self.offset_limit.map(|(offset, limit)| format!(" OFFSET {offset} LIMIT {limit}"));
        let RandomQuery { selection, from, filter, group_by, order_by, .. } = self;
        format!(
            "SELECT {distinct}{top}{selection} FROM c{from}{filter}{group_by}{order_by}{}",
            cut.unwrap_or_default()
        )
    }

    /// The same without `TOP` and `OFFSET … LIMIT`.
    pub fn uncut(&self) -> RandomQuery {
        RandomQuery { top: None, offset_limit: None, ..self.clone() }
    }

    /// The number of rows, out of `rows`, after the cuts.
    pub fn cut(&self, rows: usize) -> usize {
        let (offset, limit) = self.offset_limit.unwrap_or((0, u64::MAX));
        let limit = limit.min(self.top.unwrap_or(u64::MAX));
        (rows as u64).saturating_sub(offset).min(limit) as usize
    }
}

fn one_of(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(choices).prop_map(str::to_owned)
}

const ROWS: &[&str] =
    &["c.id", "c.id, c.a, c.b", "VALUE c.a", "c.a", "VALUE {x: c.b, y: [c.n]}", "c.n, c.a AS x"];
const JOINED: &[&str] = &["c.id, t", "VALUE t", "VALUE {t: t, a: c.a}"];
const AGGREGATES: &[&str] = &[
    "VALUE COUNT(1)",
    "VALUE SUM(c.n)",
    "VALUE AVG(c.n)",
    "VALUE AVG(c.a)",
    "VALUE MIN(c.a)",
    "VALUE MAX(c.b)",
    "VALUE MAKESET(c.n)",
    "COUNT(c.n), SUM(c.a)",
    "MIN(c.n) AS low, MAX(c.n) AS high, AVG(c.n) AS middle",
];
const GROUPED: &[&str] = &[
    "c.a",
    "VALUE c.a",
    "c.a, COUNT(1) AS n",
    "c.a AS k, MIN(c.b) AS low, AVG(c.n) AS middle",
    "VALUE SUM(c.n)",
    "VALUE COUNT(c.b)",
];
const GROUPS_WITHOUT_AGGREGATES: &[&str] =
    &["c.a", "VALUE c.a", "c.a AS k, c.n", "VALUE [c.n, c.a]", "1 AS one"];
const ORDERS_OF_GROUPS: &[&str] = &[
    " ORDER BY c.a",
    " ORDER BY c.a DESC",
    " ORDER BY c.n",
    " ORDER BY c.n DESC, c.a",
    " ORDER BY c.a, c.n DESC",
];
const FILTERS: &[&str] =
    &["", "", " WHERE c.n > 2", " WHERE IS_DEFINED(c.a)", " WHERE c.a != 1 OR c.b = 'a'", " WHERE c.n < -9"];
const ORDERS: &[&str] = &[
    "",
    " ORDER BY c.a",
    " ORDER BY c.a DESC",
    " ORDER BY c.n",
    " ORDER BY c.a, c.b DESC",
    " ORDER BY c.b DESC, c.n",
    " ORDER BY c.b, c.a, c.n DESC",
];

/// Queries of every kind that a merge knows.
pub fn query() -> impl Strategy<Value = RandomQuery> {
    let plain = (one_of(ROWS), Just(String::new()), Just(String::new()), one_of(ORDERS));
    let joined = (one_of(JOINED), Just(" JOIN t IN c.tags".to_owned()), Just(String::new()), one_of(ORDERS));
    let whole = (one_of(AGGREGATES), Just(String::new()), Just(String::new()), Just(String::new()));
    let grouped =
        (one_of(GROUPED), Just(String::new()), Just(" GROUP BY c.a".to_owned()), Just(String::new()));
    let several = (
        Just("c.a, c.n, SUM(t) AS s".to_owned()),
        Just(" JOIN t IN c.tags".to_owned()),
        Just(" GROUP BY c.a, c.n".to_owned()),
        Just(String::new()),
    );
    let in_order = (
        prop_oneof![one_of(GROUPED), one_of(GROUPS_WITHOUT_AGGREGATES)],
        Just(String::new()),
        Just(" GROUP BY c.a, c.n".to_owned()),
        one_of(ORDERS_OF_GROUPS),
    );
    let shape = prop_oneof![4 => plain, 2 => joined, 1 => whole, 2 => grouped, 1 => several, 2 => in_order];
    let cuts = (prop::option::weighted(0.3, 0..12u64), prop::option::weighted(0.3, (0..8u64, 0..12u64)));
    (shape, one_of(FILTERS), prop::bool::weighted(0.3), cuts).prop_map(
        |((selection, from, group_by, order_by), filter, distinct, (top, offset_limit))| RandomQuery {
            distinct,
            // A query has one of the two.
            top: top.filter(|_| offset_limit.is_none()),
            selection,
            from,
            filter,
            group_by,
            order_by,
            offset_limit,
        },
    )
}
