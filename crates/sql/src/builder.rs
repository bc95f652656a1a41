//! Queries made of values instead of text, for front ends without SQL.
//!
//! A built query is bound, planned and executed like a query text with the same meaning. Its values are
//! parameters, so queries that differ only in their values share one parsed query. Its rows are the stored
//! bodies of items, in BSON.

use shardlake_document::Value;

use crate::plan::SortDirection;
use crate::syntax::ParsedQuery;
use crate::syntax::ast::{
    BinaryOperator, Collection, Count, CountValue, Direction, Expression, Identifier, OrderBy, OrderKey,
    PathStep, Query, Select, Selection, Source, Span, SubqueryKind, UnaryOperator,
};

/// Property names from an item's root to a value.
pub type ValuePath = Vec<String>;

/// A condition on an item. Comparisons hold only between values of one type, as in queries.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    Equal {
        path: ValuePath,
        value: Value,
    },
    /// Between two bounds, of which one may be missing; the flag includes the bound itself in the range.
    Range {
        path: ValuePath,
        from: Option<(Value, bool)>,
        to: Option<(Value, bool)>,
    },
    /// There is a value, null included.
    Exists {
        path: ValuePath,
    },
    /// There is an array.
    IsArray {
        path: ValuePath,
    },
    /// There is an object.
    IsObject {
        path: ValuePath,
    },
    /// There is an array with an element of this value.
    Contains {
        path: ValuePath,
        value: Value,
    },
    /// There is an array with an element that is an object.
    ContainsObject {
        path: ValuePath,
    },
    /// Texts whose sort key has this relation to another sort key. A computed property that holds the sort
    /// key serves it.
    SortKey {
        key: SortKey,
        is: Compared,
        value: String,
    },
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
}

/// The sort key of a text at a path, by rules in their stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    pub path: ValuePath,
    pub rules: String,
    /// Whether the text is an id, which may be the encoding of another text or of a value of another type.
    pub is_of_id: bool,
}

/// How a sort key compares with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    Equal,
    AtLeast,
    AtMost,
}

impl SortKey {
    /// The sort key as a call in a query.
    fn call(&self) -> Expression {
        let rules = Expression::Literal(Value::String(self.rules.clone()));
        call(self.function(), vec![property(&self.path), rules])
    }

    fn function(&self) -> &'static str {
        if self.is_of_id { "SORTKEYOFID" } else { "SORTKEY" }
    }

    /// The query of a computed property that holds the sort key. Names and rules contain neither quotes nor
    /// backslashes.
    pub fn computed_query(&self) -> String {
        let path: String = self.path.iter().map(|name| format!("[\"{name}\"]")).collect();
        format!("SELECT VALUE {}({ITEM}{path}, \"{}\") FROM {ITEM}", self.function(), self.rules)
    }
}

/// Items that satisfy a condition, in an order, up to a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItemQuery {
    pub filter: Option<Predicate>,
    pub order_by: Vec<(ValuePath, SortDirection)>,
    pub limit: Option<u32>,
}

/// A query that is ready to be bound to a container.
#[derive(Debug, Clone)]
pub struct BuiltQuery {
    pub query: ParsedQuery,
    pub parameters: Vec<(String, Value)>,
}

/// The alias of items in the tree.
const ITEM: &str = "c";

impl ItemQuery {
    pub fn build(&self) -> BuiltQuery {
        let mut parameters = Vec::new();
        let filter = self.filter.as_ref().map(|filter| condition(filter, &mut parameters));
        let keys: Vec<OrderKey> =
            self.order_by.iter().map(|(path, direction)| key(path, *direction)).collect();
        let top = self.limit.map(|limit| Count {
            value: CountValue::Number(Value::Int(i64::from(limit))),
            span: Span::default(),
        });
        let source = Source::Path { root: identifier(), path: Vec::new() };
        let select = Select {
            distinct: false,
            top,
            selection: Selection::All,
            top_span: Span::default(),
            span: Span::default(),
        };
        let tree = Query {
            select,
            from: Some(Collection::Aliased { source, alias: None }),
            filter,
            group_by: Vec::new(),
            order_by: (!keys.is_empty()).then(|| OrderBy::Keys { keys, span: Span::default() }),
            offset_limit: None,
            span: Span::default(),
        };
        BuiltQuery { query: ParsedQuery::of_bodies(tree), parameters }
    }
}

fn identifier() -> Identifier {
    Identifier { name: ITEM.to_owned(), span: Span::default() }
}

fn property(path: &[String]) -> Expression {
    path.iter().fold(Expression::Identifier(identifier()), |of, name| Expression::Property {
        of: Box::new(of),
        name: name.clone(),
        quoted: true,
    })
}

fn key(path: &[String], direction: SortDirection) -> OrderKey {
    let direction = match direction {
        SortDirection::Ascending => Direction::Ascending,
        SortDirection::Descending => Direction::Descending,
    };
    OrderKey { expression: property(path), direction: Some(direction), span: Span::default() }
}

fn condition(predicate: &Predicate, parameters: &mut Vec<(String, Value)>) -> Expression {
    match predicate {
        Predicate::Equal { path, value } => compare(path, BinaryOperator::Equal, value, parameters),
        Predicate::Range { path, from, to } => {
            let mut bounds = Vec::new();
            if let Some((value, includes)) = from {
                let operator =
                    if *includes { BinaryOperator::GreaterOrEqual } else { BinaryOperator::Greater };
                bounds.push(compare(path, operator, value, parameters));
            }
            if let Some((value, includes)) = to {
                let operator = if *includes { BinaryOperator::LessOrEqual } else { BinaryOperator::Less };
                bounds.push(compare(path, operator, value, parameters));
            }
            // A range without bounds holds every value.
            if bounds.is_empty() { is_defined(path) } else { joined(bounds, true) }
        }
        Predicate::Exists { path } => is_defined(path),
        Predicate::IsArray { path } => call("IS_ARRAY", vec![property(path)]),
        Predicate::IsObject { path } => call("IS_OBJECT", vec![property(path)]),
        Predicate::Contains { path, value } => {
            let parameter = parameter(value, parameters);
            call("ARRAY_CONTAINS", vec![property(path), parameter])
        }
        Predicate::ContainsObject { path } => exists_object_in(path),
        Predicate::SortKey { key, is, value } => {
            let operator = match is {
                Compared::Equal => BinaryOperator::Equal,
                Compared::AtLeast => BinaryOperator::GreaterOrEqual,
                Compared::AtMost => BinaryOperator::LessOrEqual,
            };
            let right = Box::new(parameter(&Value::String(value.clone()), parameters));
            Expression::Binary { operator, left: Box::new(key.call()), right }
        }
        Predicate::All(parts) => joined(parts.iter().map(|part| condition(part, parameters)).collect(), true),
        Predicate::Any(parts) => {
            joined(parts.iter().map(|part| condition(part, parameters)).collect(), false)
        }
        Predicate::Not(inner) => Expression::Unary {
            operator: UnaryOperator::Not,
            operand: Box::new(condition(inner, parameters)),
        },
    }
}

fn compare(
    path: &[String],
    operator: BinaryOperator,
    value: &Value,
    parameters: &mut Vec<(String, Value)>,
) -> Expression {
    let right = Box::new(parameter(value, parameters));
    Expression::Binary { operator, left: Box::new(property(path)), right }
}

fn parameter(value: &Value, parameters: &mut Vec<(String, Value)>) -> Expression {
    let name = format!("@p{}", parameters.len());
    parameters.push((name.clone(), value.clone()));
    Expression::Parameter(name)
}

fn is_defined(path: &[String]) -> Expression {
    call("IS_DEFINED", vec![property(path)])
}

fn call(name: &str, arguments: Vec<Expression>) -> Expression {
    Expression::Call { name: name.to_owned(), arguments, span: Span::default() }
}

/// `EXISTS(SELECT VALUE e FROM e IN c["…"] WHERE IS_OBJECT(e))`.
fn exists_object_in(path: &[String]) -> Expression {
    let element = || Identifier { name: "e".to_owned(), span: Span::default() };
    let step = |name: &String| PathStep::Name { name: name.clone(), quoted: true };
    let source = Source::Path { root: identifier(), path: path.iter().map(step).collect() };
    let select = Select {
        distinct: false,
        top: None,
        selection: Selection::Value(Expression::Identifier(element())),
        top_span: Span::default(),
        span: Span::default(),
    };
    let query = Query {
        select,
        from: Some(Collection::Iterate { alias: element(), source }),
        filter: Some(call("IS_OBJECT", vec![Expression::Identifier(element())])),
        group_by: Vec::new(),
        order_by: None,
        offset_limit: None,
        span: Span::default(),
    };
    Expression::Subquery { kind: SubqueryKind::Exists, query: Box::new(query) }
}

/// AND of no conditions is true, OR of none is false.
fn joined(mut parts: Vec<Expression>, all: bool) -> Expression {
    match parts.len() {
        0 => Expression::Literal(Value::Bool(all)),
        1 => parts.remove(0),
        _ if all => Expression::And(parts),
        _ => Expression::Or(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str]) -> ValuePath {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_built_query_says_what_its_text_would() {
        let price = path(&["price"]);
        let range = Predicate::Range { path: price.clone(), from: Some((Value::Int(1), true)), to: None };
        let kinds = ["a", "b"].map(|kind| Predicate::Equal { path: path(&["kind"]), value: kind.into() });
        let filter = Predicate::All(vec![range, Predicate::Any(kinds.to_vec())]);
        let query = ItemQuery {
            filter: Some(filter),
            order_by: vec![(price, SortDirection::Descending)],
            limit: Some(5),
        };
        let built = query.build();
        let text = built.query.text().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let said = "SELECT TOP 5 * FROM c WHERE ((c[\"price\"] >= @p0) AND ((c[\"kind\"] = @p1) OR (c[\"kind\"] = @p2))) ORDER BY c[\"price\"] DESC";
        assert!(text.starts_with(said), "{text}");
        let values = [Value::Int(1), "a".into(), "b".into()];
        let parameters: Vec<Value> = built.parameters.into_iter().map(|(_, value)| value).collect();
        assert_eq!(parameters, values);
    }
}
