//! A parsed query: its text and its tree, shared, so that parsed queries can be cached by their text.

use std::sync::Arc;

use super::{ast, parse, printer, template};
use crate::error::SqlError;

/// A parsed query; cheap to clone. Only its grammar has been checked.
#[derive(Debug, Clone)]
pub struct Query {
    text: Arc<str>,
    tree: Arc<ast::Query>,
    template: Arc<str>,
    wants_bodies: bool,
}

pub fn parse_query(text: &str) -> Result<Query, SqlError> {
    let tree = Arc::new(parse(text)?);
    Ok(Query { text: text.into(), tree, template: template(text).into(), wants_bodies: false })
}

impl Query {
    /// The query of a text; with the stored bodies of items as its rows, where it was made for them.
    pub fn of_text(text: &str, wants_bodies: bool) -> Result<Query, SqlError> {
        Ok(Query { wants_bodies, ..parse_query(text)? })
    }

    /// `SELECT *` whose rows are the stored bodies of items. Its text only identifies it.
    pub(crate) fn of_bodies(tree: ast::Query) -> Query {
        let text = format!("{}\n-- bodies", printer::print_query(&tree));
        let template = template(&text).into();
        Query { text: text.into(), tree: Arc::new(tree), template, wants_bodies: true }
    }

    /// Whether its rows are the stored bodies of items.
    pub fn wants_bodies(&self) -> bool {
        self.wants_bodies
    }

    /// The original text; places in errors refer to it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text without its literals, of bounded length: see [`template`].
    pub fn template(&self) -> &Arc<str> {
        &self.template
    }

    /// The text on one line, with parentheses around every operation, as the .NET SDK's own parser prints
    /// queries.
    pub fn to_canonical_text(&self) -> String {
        printer::print_compact(&self.tree)
    }

    /// The text with a line for each clause, as the service prints the queries that it rewrites.
    pub fn to_service_text(&self) -> String {
        printer::print_query(&self.tree)
    }

    pub(crate) fn tree(&self) -> &ast::Query {
        &self.tree
    }
}
