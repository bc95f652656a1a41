//! The SQL of the analytical store: from text to a statement that DataFusion plans.
//!
//! A statement may only read. Names of tables and columns keep their case. Lists in FROM are rewritten to a form that the planner has, and
//! T-SQL is translated as far as its meaning is kept; everything else is refused with line, column and the form to write. The crate is
//! pure: it opens no table and knows no planner.
//!
//! | file | contents |
//! |---|---|
//! | `brackets.rs`, `grammar.rs`, `syntax.rs` | from text to a syntax tree of bounded depth |
//! | `openrowset.rs` | Synapse's OPENROWSET as the table that it names |
//! | `clauses.rs` | clauses that the planner lacks or ignores, refused; TOP and FETCH as LIMIT |
//! | `walk.rs`, `resolver.rs`, `scope.rs` | the walk over the tree: names in scope, found or refused |
//! | `from.rs`, `lateral.rs` | FROM: tables by their right names, lists as rows |
//! | `tables.rs`, `access.rs`, `json_path.rs` | tables, columns and members by their names |
//! | `functions.rs`, `dates.rs`, `types.rs`, `literals.rs` | T-SQL's functions, dates and types |

mod access;
mod brackets;
mod catalog;
mod clauses;
mod dates;
mod error;
mod from;
mod functions;
mod grammar;
mod json_path;
mod lateral;
mod literals;
mod openrowset;
mod resolver;
mod scope;
mod syntax;
mod tables;
mod types;
mod walk;

use sqlparser::ast::Statement;

pub use catalog::{Column, Kind, Settings, Table, TableName, column_of_property};
pub use error::DialectError;
pub use syntax::TEXT_BYTES_MAX;

/// A statement that may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// Tables that the statement reads, each once.
    pub tables: Vec<TableName>,
    /// Parameters by name, without the dollar sign, each once.
    pub parameters: Vec<String>,
}

/// Parses one statement, and rewrites it for a planner that keeps the case of names.
pub fn parse(text: &str, settings: &Settings<'_>) -> Result<Parsed, DialectError> {
    parsed(text, settings).map_err(|refusal| *refusal)
}

fn parsed(text: &str, settings: &Settings<'_>) -> error::Checked<Parsed> {
    let syntax::Syntax { mut statement, is_tsql } = syntax::parse(text, settings)?;
    let mut resolver = resolver::Resolver::new(*settings, is_tsql);
    if let Some(query) = clauses::query_of(&mut statement)? {
        resolver.resolve(query)?;
    } else if let Statement::ExplainTable { table_name, .. } = &mut statement {
        resolver.table(table_name)?;
    }
    Ok(Parsed { statement, tables: resolver.tables, parameters: resolver.parameters })
}
