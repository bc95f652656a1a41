//! A query as callers hold it: its text and the tree of it, shared, so that parsed queries can be cached by their text.

use std::sync::Arc;

use super::{ast, parse, printer, template};
use crate::error::SqlError;

/// A parsed query; cheap to clone. Only its grammar has been checked.
#[derive(Debug, Clone)]
pub struct Query {
    text: Arc<str>,
    tree: Arc<ast::Query>,
    template: Arc<str>,
}

pub fn parse_query(text: &str) -> Result<Query, SqlError> {
    let tree = Arc::new(parse(text)?);
    Ok(Query { text: text.into(), tree, template: template(text).into() })
}

impl Query {
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
