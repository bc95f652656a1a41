//! The steps of a query in the words of its text, for displayed plans.

use super::ast::{Collection, Expression, OrderBy};
use super::parsed::Query;
use super::printer::print_expression;

/// Longer texts are cut.
const TEXT_BYTES_MAX: usize = 240;

/// The clauses of a query; `None` for missing ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryOutline {
    /// The number of loops over arrays in items.
    pub joins: usize,
    pub filter: Option<String>,
    pub group_by: Option<String>,
    pub is_distinct: bool,
    pub order_by: Option<String>,
    /// `TOP`, or `OFFSET … LIMIT …`.
    pub page: Option<String>,
    /// From `SELECT` on.
    pub selection: String,
}

impl Query {
    pub fn outline(&self) -> QueryOutline {
        let tree = self.tree();
        let text = |start: usize, end: usize| self.text().get(start..end).map(cut).unwrap_or_default();
        let order = |order: &OrderBy| match order {
            OrderBy::Keys { span, .. } | OrderBy::Rank { span, .. } => text(span.start, span.end),
        };
        let offset = tree.offset_limit.as_ref().map(|clause| text(clause.span.start, clause.span.end));
        let top =
            tree.select.top.as_ref().map(|_| text(tree.select.top_span.start, tree.select.top_span.end));
        QueryOutline {
            joins: tree.from.as_ref().map_or(0, joins),
            filter: tree.filter.as_ref().map(printed),
            group_by: (!tree.group_by.is_empty())
                .then(|| list(tree.group_by.iter().map(|key| &key.expression))),
            is_distinct: tree.select.distinct,
            order_by: tree.order_by.as_ref().map(order),
            page: offset.or(top),
            selection: text(tree.select.span.start, tree.select.span.end),
        }
    }
}

fn joins(from: &Collection) -> usize {
    match from {
        Collection::Aliased { .. } => 0,
        Collection::Iterate { .. } => 1,
        Collection::Join { left, right } => joins(left) + joins(right).max(1),
    }
}

fn list<'e>(expressions: impl Iterator<Item = &'e Expression>) -> String {
    let texts: Vec<String> = expressions.map(printed).collect();
    cut(&texts.join(", "))
}

fn printed(expression: &Expression) -> String {
    cut(&print_expression(expression))
}

fn cut(text: &str) -> String {
    let mut shown = text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse_query;

    #[test]
    fn every_clause_is_told_in_the_words_of_the_text() {
        let text = "SELECT DISTINCT TOP 3 c.a FROM c JOIN t IN c.tags JOIN u IN c.more WHERE c.b = 'é' ORDER BY c.a DESC";
        let outline = parse_query(text).expect("valid").outline();
        assert_eq!((outline.joins, outline.is_distinct), (2, true));
        assert_eq!(outline.page.as_deref(), Some("TOP 3"));
        assert_eq!(outline.order_by.as_deref(), Some("ORDER BY c.a DESC"));
        assert_eq!(outline.selection, "SELECT DISTINCT TOP 3 c.a");
        assert!(outline.filter.expect("a filter").contains("é"));
        let text = "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a OFFSET 1 LIMIT 2";
        let outline = parse_query(text).expect("valid").outline();
        assert_eq!(outline.page.as_deref(), Some("OFFSET 1 LIMIT 2"));
        assert!(outline.group_by.is_some() && outline.filter.is_none() && outline.order_by.is_none());
    }
}
