//! Random items, queries and indexing policies over the same few names, so that they match often.

use proptest::prelude::*;

/// JSON texts of scalars that are near one another in every order.
pub fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => one_of(&["null", "true", "false"]),
        5 => (-3i64..5).prop_map(|number| number.to_string()),
        2 => one_of(&["0.5", "-0.0", "2.5", "1e300", "-1e300", "5e-324"]),
        2 => one_of(&["9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993"]),
        1 => one_of(&["9223372036854775807", "-9223372036854775808", "1e19"]),
        4 => one_of(&[r#""""#, r#""a""#, r#""A""#, r#""ab""#, r#""b""#, r#""%""#, r#""1""#]),
        2 => one_of(&["\"\u{e9}\"", "\"e\u{301}\"", "\"\u{1F600}\"", "\"\u{ffff}\"", r#""\u0000""#, r#""a\u0000""#]),
        // Longer than the part that the index keeps, and alike up to its end or just beyond.
        2 => (118..124usize, "[xy]{0,2}").prop_map(|(length, end)| format!("\"{}{end}\"", "l".repeat(length))),
    ]
}

pub fn one_of(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(choices).prop_map(str::to_owned)
}

fn object(
    inner: impl Strategy<Value = String> + Clone + 'static,
    names: &'static [&'static str],
) -> BoxedStrategy<String> {
    let members: Vec<BoxedStrategy<Option<String>>> = names
        .iter()
        .map(|name| {
            let member = inner.clone().prop_map(move |value| format!("\"{name}\":{value}"));
            prop::option::weighted(0.6, member).boxed()
        })
        .collect();
    members
        .prop_map(|members| format!("{{{}}}", members.into_iter().flatten().collect::<Vec<_>>().join(",")))
        .boxed()
}

fn array(inner: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> + Clone {
    let list = prop::collection::vec(inner, 0..4).prop_map(|list| format!("[{}]", list.join(",")));
    list.boxed()
}

/// The members of an item besides its id and key.
pub fn members() -> impl Strategy<Value = String> {
    let scalar = || scalar().boxed();
    let any = prop_oneof![
        6 => scalar(),
        1 => array(scalar()),
        1 => object(scalar(), &["x", "y"]),
    ]
    .boxed();
    let nested = prop_oneof![3 => object(scalar(), &["z"]), 1 => scalar()].boxed();
    let o = prop_oneof![5 => (scalar(), nested).prop_map(|(x, y)| format!("{{\"x\":{x},\"y\":{y}}}")), 1 => any.clone()];
    let element = prop_oneof![5 => object(scalar(), &["k", "v"]), 1 => scalar()].boxed();
    let tags = prop_oneof![5 => array(scalar()), 1 => any.clone()];
    let list = prop_oneof![5 => array(element), 1 => any.clone()];
    let member = |name: &'static str, value: BoxedStrategy<String>| {
        prop::option::weighted(0.75, value)
            .prop_map(move |value| value.map(|value| format!(",\"{name}\":{value}")))
    };
    (
        member("a", any.clone()),
        member("b", any),
        member("n", (-3i64..9).prop_map(|number| number.to_string()).boxed()),
        member("o", o.boxed()),
        member("tags", tags.boxed()),
        member("list", list.boxed()),
    )
        .prop_map(|(a, b, n, o, tags, list)| [a, b, n, o, tags, list].into_iter().flatten().collect())
}

const PATHS: &[&str] = &[
    "c.a",
    "c.a",
    "c.b",
    "c.b",
    "c.n",
    "c.n",
    "c.o.x",
    "c.o.y.z",
    "c.o",
    "c[\"a\"]",
    "c.tags[0]",
    "c.tags",
    "c.list[1].k",
    "c.missing",
    "c.id",
    "c.pk",
    "c.a.x",
];

fn path() -> impl Strategy<Value = String> {
    one_of(PATHS)
}

/// An operand of a comparison: also objects, arrays and `undefined`.
fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => scalar(),
        1 => path(),
        1 => one_of(&["undefined", "[]", "{}", "[1]", "{\"x\":1}", "\"k1\"", "\"i3\"", "c.n + 1", "ABS(c.n)", "(c.a ?? c.b)"]),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let operator = || one_of(&["=", "=", "!=", "<", "<=", ">", ">="]);
    let check = one_of(&[
        "IS_DEFINED",
        "IS_NULL",
        "IS_BOOL",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
        "IS_PRIMITIVE",
        "IS_INTEGER",
        "IS_FINITE_NUMBER",
    ]);
    let search = one_of(&["STARTSWITH", "CONTAINS", "ENDSWITH", "STRINGEQUALS"]);
    let needle = one_of(&["", "a", "A", "ab", "l", "lll", "ly", "\u{e9}", "1"]);
    let flag = one_of(&["", ", true", ", false"]);
    let pattern = one_of(&["a%", "%b", "_", "a", "%", "l%y", "A%", "%l%", "[a-b]%", "[^a]%", "", "a!%"]);
    let derived = one_of(&[
        "LENGTH(c.a) > 1",
        "LOWER(c.a) = 'a'",
        "UPPER(c.b) >= 'A'",
        "c.n % 2 = 0",
        "c.n + c.a > 3",
        "ARRAY_LENGTH(c.tags) >= 2",
        "ToString(c.a) = '1'",
        "(c.a = 1) = true",
        "c.a = 1 != true",
        "IIF(c.n > 2, c.a = 1, c.b = 1)",
        "(c.n > 2 ? c.a : c.b) = 1",
        "RegexMatch(c.a, '^[al]', 'i')",
        "c.a || c.b = 'ab'",
        "c.a = c.b",
        "c.a < c.b",
        "c.a IN (c.b, c.n, 1)",
        "c.a",
        "(c.n BETWEEN c.a AND c.b)",
        "c.o = {\"x\": 1, \"y\": {}}",
        "ARRAY_CONTAINS(c.list, {k: 1}, true)",
        "ARRAY_CONTAINS([1, 2, 'a', null], c.a)",
        "ARRAY_CONTAINS_ANY(c.tags, 1, 'a')",
        "ARRAY_CONTAINS_ALL(c.tags, 1, 2)",
        "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t > 1 AND t < 4)",
        "EXISTS(SELECT VALUE l FROM l IN c.list WHERE l.k = 1 AND l.v != 1)",
        "EXISTS(SELECT VALUE l.k FROM l IN c.list JOIN t IN c.tags WHERE l.k = t)",
        "(SELECT VALUE COUNT(1) FROM t IN c.tags) > 1",
        "(SELECT VALUE MAX(t) FROM t IN c.tags) > 2",
        "c.pk = 'k1'",
        "c.pk IN ('k0', 'k2')",
        "c.pk > 'k1'",
        "c.pk = 'k0' AND c.n > 2 OR c.pk = 'k3'",
        "c.id = 'i1'",
        "true",
        "false",
        "null",
        "undefined",
        "1",
    ]);
    prop_oneof![
        8 => (path(), operator(), operand()).prop_map(|(path, operator, value)| format!("{path} {operator} {value}")),
        2 => (operand(), operator(), path()).prop_map(|(value, operator, path)| format!("{value} {operator} {path}")),
        2 => (path(), one_of(&["IN", "NOT IN"]), prop::collection::vec(operand(), 1..5)).prop_map(|(path, is, list)| format!("{path} {is} ({})", list.join(","))),
        2 => (path(), one_of(&["BETWEEN", "NOT BETWEEN"]), operand(), operand()).prop_map(|(path, is, low, high)| format!("({path} {is} {low} AND {high})")),
        2 => (check, path()).prop_map(|(check, path)| format!("{check}({path})")),
        2 => (search, path(), needle, flag).prop_map(|(search, path, text, flag)| format!("{search}({path}, '{text}'{flag})")),
        1 => (path(), one_of(&["LIKE", "NOT LIKE"]), pattern).prop_map(|(path, is, pattern)| format!("{path} {is} '{pattern}'")),
        1 => scalar().prop_map(|value| format!("ARRAY_CONTAINS(c.tags, {value})")),
        1 => (operator(), scalar()).prop_map(|(operator, value)| format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t {operator} {value})")),
        6 => derived,
    ]
}

pub fn filter() -> impl Strategy<Value = String> {
    condition().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            1 => inner.prop_map(|part| format!("(NOT ({part}))")),
        ]
    })
}

/// A query in parts that a test can remove.
#[derive(Debug, Clone, Default)]
pub struct RandomQuery {
    /// `DISTINCT`, or nothing.
    pub distinct: &'static str,
    pub selection: String,
    pub from: String,
    pub filter: Option<String>,
    pub group_by: &'static str,
    /// Keys with their directions. The rows of an ordered query show them as `k0`, `k1`.
    pub order_by: Vec<(String, bool)>,
    pub offset: u64,
    pub limit: Option<u64>,
}

impl RandomQuery {
    pub fn text(&self) -> String {
        let RandomQuery { distinct, selection, from, group_by, .. } = self;
        let filter = self.filter.as_ref().map_or_else(String::new, |filter| format!(" WHERE {filter}"));
        let keys: Vec<String> = self
            .order_by
            .iter()
            .map(|(key, down)| format!("{key}{}", if *down { " DESC" } else { "" }))
            .collect();
        let order = if keys.is_empty() { String::new() } else { format!(" ORDER BY {}", keys.join(", ")) };
        let (top, cut) = match (self.limit, self.offset) {
            (None, _) => (String::new(), String::new()),
            (Some(limit), 0) => (format!("TOP {limit} "), String::new()),
            (Some(limit), offset) => (String::new(), format!(" OFFSET {offset} LIMIT {limit}")),
        };
        format!("SELECT {distinct}{top}{selection} FROM {from}{filter}{group_by}{order}{cut}")
    }

    /// All its rows, in any order: the part of the query that needs no index.
    pub fn bare(&self) -> RandomQuery {
        RandomQuery { order_by: vec![], offset: 0, limit: None, ..self.clone() }
    }
}

const SELECTIONS: &[&str] = &[
    "VALUE c.id",
    "c.id, c.a",
    "VALUE c.a",
    "VALUE [c.a, c.b ?? 0]",
    "c.o.x, c.tags[0] AS first",
    "VALUE {n: c.n, deep: {list: c.list}}",
    "VALUE ARRAY(SELECT VALUE t FROM t IN c.tags WHERE IS_NUMBER(t))",
    "c.id, ARRAY(SELECT l.k FROM l IN c.list) AS ks, (SELECT VALUE COUNT(1) FROM t IN c.tags) AS n",
    "VALUE (SELECT VALUE SUM(t) FROM t IN c.tags)",
    "c.id, EXISTS(SELECT VALUE 1 FROM t IN c.tags WHERE t = c.a) AS has",
];
const AGGREGATES: &[&str] = &[
    "VALUE COUNT(1)",
    "VALUE COUNT(c.a)",
    "VALUE SUM(c.n)",
    "VALUE AVG(c.n)",
    "VALUE MIN(c.a)",
    "VALUE MAX(c.a)",
    "COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS m, MIN(c.b) AS low, MAX(c.b) AS high",
];
const GROUPED: &[&str] = &[
    "c.a",
    "VALUE c.a",
    "c.a, COUNT(1) AS n",
    "COUNT(c.b) AS n, SUM(c.n) AS s, AVG(c.n) AS m, MIN(c.b) AS low, MAX(c.b) AS high, c.a AS k",
    "VALUE COUNT(1)",
];
const JOINED: &[(&str, &str)] = &[
    ("c JOIN t IN c.tags", "c.id, t"),
    ("c JOIN l IN c.list", "c.id, l.k, l.v"),
    ("c JOIN t IN c.tags JOIN l IN c.list", "VALUE [c.id, t, l]"),
    ("c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t > 0) AS s", "VALUE {id: c.id, s: s}"),
    ("c JOIN (SELECT VALUE COUNT(1) FROM t IN c.tags) AS n", "c.id, n"),
];

fn cut() -> impl Strategy<Value = (u64, Option<u64>)> {
    prop_oneof![
        2 => Just((0, None)),
        1 => (0u64..12).prop_map(|limit| (0, Some(limit))),
        1 => (1u64..8, 0u64..12).prop_map(|(offset, limit)| (offset, Some(limit))),
    ]
}

const KEYS: &[&str] = &["c.a", "c.b", "c.n", "c.o.x", "c.id", "c.pk", "c.missing", "c.o.y.z"];
const KEY_LISTS: &[&[(&str, bool)]] = &[
    &[("c.a", false), ("c.b", true)],
    &[("c.a", true), ("c.b", false)],
    &[("c.pk", false), ("c.n", false), ("c.a", true)],
    &[("c.n", true), ("c.id", true)],
];

/// Composite indexes that serve [`KEY_LISTS`].
pub const COMPOSITES: &str = r#"[[{"path":"/a"},{"path":"/b","order":"descending"}],
    [{"path":"/pk"},{"path":"/n"},{"path":"/a","order":"descending"}],[{"path":"/n"},{"path":"/id"}]]"#;

fn order() -> impl Strategy<Value = Vec<(String, bool)>> {
    let single = (one_of(KEYS), any::<bool>()).prop_map(|key| vec![key]);
    let several = prop::sample::select(KEY_LISTS)
        .prop_map(|keys| keys.iter().map(|(key, down)| ((*key).to_owned(), *down)).collect());
    prop_oneof![2 => single, 1 => several]
}

pub fn query() -> impl Strategy<Value = RandomQuery> {
    let of = |selection: String| RandomQuery { selection, from: "c".into(), ..RandomQuery::default() };
    let plain = (one_of(SELECTIONS), prop::sample::select(vec!["", "", "DISTINCT "]))
        .prop_map(move |(selection, distinct)| RandomQuery { distinct, ..of(selection) });
    let whole = one_of(AGGREGATES).prop_map(of);
    let grouped =
        one_of(GROUPED).prop_map(move |selection| RandomQuery { group_by: " GROUP BY c.a", ..of(selection) });
    let pairs = one_of(&["c.a, c.n, COUNT(1) AS count", "c.n, MAX(c.b) AS m", "VALUE SUM(c.n)"])
        .prop_map(move |selection| RandomQuery { group_by: " GROUP BY c.a, c.n", ..of(selection) });
    let joined = prop::sample::select(JOINED)
        .prop_map(move |(from, selection)| RandomQuery { from: from.into(), ..of(selection.into()) });
    let ordered = (order(), any::<bool>()).prop_map(move |(keys, joins)| {
        let shown: Vec<String> =
            keys.iter().enumerate().map(|(at, (key, _))| format!("k{at}: {key}")).collect();
        let (from, row) = if joins { ("c JOIN t IN c.tags", ", t: t") } else { ("c", "") };
        RandomQuery {
            from: from.into(),
            order_by: keys,
            ..of(format!("VALUE {{id: c.id, {}{row}}}", shown.join(", ")))
        }
    });
    let kind = prop_oneof![3 => plain, 1 => whole, 1 => grouped, 1 => pairs, 2 => joined, 4 => ordered];
    (kind, prop::option::weighted(0.75, filter()), cut())
        .prop_map(|(query, filter, (offset, limit))| RandomQuery { filter, offset, limit, ..query })
}

/// An indexing policy as JSON.
pub fn policy() -> impl Strategy<Value = String> {
    const CHOICES: [&str; 10] =
        ["/a/?", "/a/*", "/b/*", "/n/?", "/o/*", "/o/x/?", "/o/y/*", "/tags/[]/?", "/list/[]/k/?", "/list/*"];
    let entries = prop::collection::vec(0u8..3, CHOICES.len());
    (any::<bool>(), entries, any::<bool>()).prop_map(|(is_included, entries, has_composites)| {
        let mut included: Vec<&str> = if is_included { vec!["/*"] } else { vec![] };
        let mut excluded: Vec<&str> = if is_included { vec![] } else { vec!["/*"] };
        for (path, entry) in CHOICES.into_iter().zip(entries) {
            match entry {
                1 => included.push(path),
                2 => excluded.push(path),
                _ => {}
            }
        }
        let list = |paths: Vec<&str>| {
            paths.iter().map(|path| format!("{{\"path\":\"{path}\"}}")).collect::<Vec<_>>().join(",")
        };
        let composites = if has_composites { COMPOSITES } else { "[]" };
        format!(
            "{{\"includedPaths\":[{}],\"excludedPaths\":[{}],\"compositeIndexes\":{composites}}}",
            list(included),
            list(excluded)
        )
    })
}
