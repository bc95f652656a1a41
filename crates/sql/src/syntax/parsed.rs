//! A query as callers hold it: its text and the tree of it, shared, so that parsed queries can be cached by their text.

use std::sync::Arc;

use super::{ast, parse, printer, template};
use crate::error::SqlError;
use crate::hint::with_hint;

/// A parsed query; cheap to clone. Only its grammar has been checked.
#[derive(Debug, Clone)]
pub struct Query {
    text: Arc<str>,
    tree: Arc<ast::Query>,
    template: Arc<str>,
    wants_bodies: bool,
}

pub fn parse_query(text: &str) -> Result<Query, SqlError> {
    let tree = parse(text).map_err(|error| with_hint(error, text, None))?;
    let tree = Arc::new(tree);
    Ok(Query { text: text.into(), tree, template: template(text).into(), wants_bodies: false })
}

impl Query {
    /// `SELECT *` whose rows are the bodies of items as they are stored. Its text only tells it from other queries.
    pub(crate) fn of_bodies(tree: ast::Query) -> Query {
        let text = format!("{}\n-- bodies", printer::print_query(&tree));
        let template = template(&text).into();
        Query { text: text.into(), tree: Arc::new(tree), template, wants_bodies: true }
    }

    pub(crate) fn wants_bodies(&self) -> bool {
        self.wants_bodies
    }

    /// As it was written; places in errors are places in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Without its literals, of bounded length: see [`template`].
    pub fn template(&self) -> &Arc<str> {
        &self.template
    }

    /// On one line, with a parenthesis around every operation: as the .NET SDK's own parser prints queries.
    pub fn to_canonical_text(&self) -> String {
        printer::print_compact(&self.tree)
    }

    /// With a line for each clause: as the service prints the queries that it rewrites.
    pub fn to_service_text(&self) -> String {
        printer::print_query(&self.tree)
    }

    pub(crate) fn tree(&self) -> &ast::Query {
        &self.tree
    }
}
