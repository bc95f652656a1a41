//! User-defined functions without JavaScript: each does the same as the built-in function of its name.

use std::sync::{Arc, LazyLock, Mutex};

use proptest::prelude::*;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ContainerScripts, Error, Result, Script, ScriptKind};
use shardlake_sql::{Arguments, Execution, PreparedQuery, UserFunctions, parse_query};

use super::UNLIMITED;

pub type MakeFunctions = Arc<dyn Fn() -> Box<dyn UserFunctions>>;

pub const NAMES: [&str; 8] =
    ["ABS", "ARRAY_LENGTH", "CONCAT", "IS_DEFINED", "IS_NUMBER", "ToString", "UPPER", "fails"];

/// A container with all of them.
pub fn scripts() -> &'static ContainerScripts {
    static SCRIPTS: LazyLock<ContainerScripts> = LazyLock::new(|| {
        let script = |name: &str| Script {
            kind: ScriptKind::Function,
            id: name.to_owned(),
            number: 1,
            etag: [1; 16],
            timestamp: 0,
            body: "function () {}".to_owned(),
            trigger: None,
            spelling: None,
        };
        let entry = |name: &&str| ((ScriptKind::Function, (*name).to_owned()), Arc::new(script(name)));
        ContainerScripts(NAMES.iter().map(entry).collect())
    });
    &SCRIPTS
}

/// Calls the built-in function of the same name; `fails` fails.
pub struct BuiltIns;

impl UserFunctions for BuiltIns {
    fn call(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        rows.iter().map(|row| built_in(name, row)).collect()
    }
}

fn built_in(name: &str, arguments: &[Option<String>]) -> Result<Option<String>> {
    if name == "fails" {
        return Err(Error::bad_request("the function 'fails' has thrown"));
    }
    let parse = |text: &String| Value::from_json(text.as_bytes(), &ParseLimits::default()).unwrap();
    let value = |argument: &Option<String>| argument.as_ref().map_or(Value::Undefined, parse);
    let names: Vec<String> = (0..arguments.len()).map(|place| format!("@p{place}")).collect();
    let parameters: Vec<_> = names.iter().cloned().zip(arguments.iter().map(value)).collect();
    let text = format!("SELECT VALUE {name}({})", names.join(", "));
    let computed = Default::default();
    let query = PreparedQuery::prepare(&parse_query(&text)?, &parameters, &super::environment(&computed))?;
    let mut execution = Execution::start(&query, UNLIMITED, false, None)?;
    execution.push_nothing(&|| false)?;
    let rows = execution.finish(true, &|| false)?.rows;
    Ok(rows.get(0).map(|row| String::from_utf8(row.to_vec()).unwrap()))
}

/// Notes every call before another answers it.
pub struct Noted(pub Arc<Mutex<Vec<(String, usize)>>>, pub BuiltIns);

impl UserFunctions for Noted {
    fn call(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        self.0.lock().unwrap().push((name.to_owned(), rows.len()));
        self.1.call(name, rows)
    }
}

/// A query in parts, with `§` where a user-defined or built-in function can be called.
#[derive(Debug, Clone, Default)]
pub struct RandomQueryParts {
    pub distinct: bool,
    pub select: String,
    pub rest: String,
    /// How many rows `OFFSET 2 LIMIT …` leaves at most.
    pub cut: Option<u64>,
    pub any_order: bool,
}

impl RandomQueryParts {
    pub fn text(&self, prefix: &str) -> String {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let cut = self.cut.map(|cut| format!(" OFFSET 2 LIMIT {cut}")).unwrap_or_default();
        format!("SELECT {distinct}{} FROM c{}{cut}", self.select, self.rest).replace('§', prefix)
    }
}

/// An expression in which `§` stands before every name of a function that is built in as well as user-defined.
pub fn expression(paths: &'static [&'static str]) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(paths).prop_map(str::to_owned),
        1 => prop::sample::select(&["1", "-2", "'b'", "true", "undefined"][..]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let one = prop::sample::select(
            &["ABS", "ARRAY_LENGTH", "IS_DEFINED", "IS_NUMBER", "ToString", "UPPER"][..],
        );
        prop_oneof![
            4 => (one, inner.clone()).prop_map(|(name, argument)| format!("§{name}({argument})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("§CONCAT({a}, {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ?? {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} = {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ? {b} : {a})")),
            1 => inner.prop_map(|a| format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE §ABS(t) = {a})")),
        ]
    })
}

/// A query with such expressions.
pub fn query() -> impl Strategy<Value = RandomQueryParts> {
    const PATHS: &[&str] = &["c.a", "c.b", "c.n", "c.tags"];
    let of_item = || expression(PATHS);
    let select = prop_oneof![
        3 => of_item().prop_map(|e| format!("VALUE {e}")),
        2 => (of_item(), of_item()).prop_map(|(a, b)| format!("c.id, {a} AS x, {b} AS y")),
        1 => of_item().prop_map(|e| format!("VALUE COUNT({e})")),
        1 => of_item().prop_map(|e| format!("VALUE MAKESET({e})")),
        1 => of_item().prop_map(|e| format!("VALUE (SELECT VALUE SUM({e}) FROM t IN c.tags)")),
        1 => of_item().prop_map(|e| format!("VALUE ARRAY(SELECT VALUE [t, §ABS(t), {e}] FROM t IN c.tags)")),
    ];
    let order = prop::sample::select(&["", "", " ORDER BY c.a", " ORDER BY c.n DESC"][..]);
    let filter = || prop::option::of(expression(PATHS).prop_map(|e| format!(" WHERE c.a != 'aa' AND {e}")));
    let plain = (select, filter(), order).prop_map(|(select, filter, order)| RandomQueryParts {
        select,
        rest: format!("{}{order}", filter.unwrap_or_default()),
        ..RandomQueryParts::default()
    });
    let joined = (expression(&["t", "c.n", "c.a"]), filter()).prop_map(|(e, filter)| RandomQueryParts {
        select: format!("c.id, {e} AS x"),
        rest: format!(" JOIN t IN c.tags{}", filter.unwrap_or_default()),
        ..RandomQueryParts::default()
    });
    // A key names a property and has no subquery.
    let key = of_item().prop_filter("no key", |e| !e.contains("EXISTS") && e.contains("c."));
    let grouped = (key, filter()).prop_map(|(e, filter)| RandomQueryParts {
        select: format!("{e} AS k, §ToString({e}) AS s, COUNT(1) AS n, MAX(§ABS(c.n)) AS m"),
        rest: format!("{} GROUP BY {e}", filter.unwrap_or_default()),
        any_order: true,
        ..RandomQueryParts::default()
    });
    let cut = prop::option::weighted(0.3, 0..12u64);
    let shape = prop_oneof![3 => plain, 1 => joined, 1 => grouped];
    (shape, prop::bool::weighted(0.2), cut)
        .prop_map(|(shape, distinct, cut)| RandomQueryParts { distinct, cut, ..shape })
        .prop_filter("at most ten calls", |query| query.text("§").matches('§').count() <= 10)
}
