//! Names that a query sees: relations of its FROM, elements of lists made rows, and names of its SELECT list.

use sqlparser::ast::{Ident, TableAlias, TableWithJoins};

use crate::access::Typed;
use crate::catalog::{Column, Kind};
use crate::tables;

/// A table, subquery or join in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// Alias, or container.
    pub name: Option<String>,
    /// Database of a table without alias, whose columns may be written with it.
    pub database: Option<String>,
    /// None where they are unknown.
    pub columns: Option<Vec<Column>>,
    /// Hidden columns: elements that a rewriting added.
    pub added: Vec<Column>,
}

impl Relation {
    pub fn of_alias(alias: Option<&TableAlias>, columns: Option<Vec<Column>>) -> Relation {
        let name = alias.map(|alias| alias.name.value.clone());
        let columns = match alias {
            Some(alias) => renamed(columns, alias),
            None => columns,
        };
        Relation { name, database: None, columns, added: Vec::new() }
    }

    pub fn column(&self, name: &Ident) -> Option<&Column> {
        let own = self.columns.as_deref().and_then(|columns| tables::column(columns, name));
        own.or_else(|| self.added.iter().find(|column| column.name == name.value))
    }
}

/// An element of a list that UNNEST or OPENJSON made rows of.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub alias: String,
    /// Relation that carries the element.
    pub host: usize,
    pub whole: Typed,
    /// Columns by name. Empty for an UNNEST whose alias names the element itself.
    pub columns: Vec<(String, Typed)>,
    /// The alias names the element itself.
    pub is_whole: bool,
}

/// Order of FROM, which the asterisk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Relation(usize),
    Element(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// A query in FROM sees nothing of the query around it.
    pub is_barrier: bool,
    pub relations: Vec<Relation>,
    pub elements: Vec<Element>,
    pub order: Vec<Item>,
    /// A join with USING or NATURAL merges columns.
    pub has_merged_columns: bool,
    /// Names that the SELECT list gives.
    pub aliases: Vec<String>,
    pub is_in_order_by: bool,
    /// Ends with the query, not with the SELECT.
    pub is_of_query: bool,
    /// FROM, kept here while the rest of the query is visited.
    pub from: Vec<TableWithJoins>,
    /// For each item of the SELECT list, the name that a bare column gives it.
    pub names: Vec<Option<String>>,
}

impl Frame {
    pub fn barrier() -> Frame {
        Frame { is_barrier: true, ..Frame::default() }
    }

    /// Names of which nothing is known.
    pub fn unknown() -> Frame {
        let relation = Relation { name: None, database: None, columns: None, added: Vec::new() };
        Frame { relations: vec![relation], ..Frame::default() }
    }

    /// Whether the columns of all relations are known.
    pub fn is_known(&self) -> bool {
        self.relations.iter().all(|relation| relation.columns.is_some())
    }

    /// Whether a relation other than the elements of a list has a column of this name.
    pub fn has_own_column(&self, name: &str) -> bool {
        self.relations
            .iter()
            .flat_map(|relation| relation.columns.iter().flatten())
            .any(|column| column.name == name)
    }

    /// Whether the SELECT list gives this name to a column of the result.
    pub fn is_in_result(&self, name: &str) -> bool {
        self.aliases.iter().chain(self.names.iter().flatten()).any(|given| given == name)
    }

    pub fn relation(&self, name: &str) -> Option<(usize, &Relation)> {
        self.relations.iter().enumerate().find(|(_, relation)| relation.name.as_deref() == Some(name))
    }

    pub fn element(&self, alias: &str) -> Option<&Element> {
        self.elements.iter().find(|element| element.alias == alias)
    }
}

/// Frames from the inside to the first barrier.
pub(crate) fn visible(frames: &[Frame]) -> impl Iterator<Item = (usize, &Frame)> + Clone {
    let visible = frames.iter().rev().take_while(|frame| !frame.is_barrier);
    visible.enumerate()
}

/// Columns by the names that an alias gives them.
pub(crate) fn renamed(columns: Option<Vec<Column>>, alias: &TableAlias) -> Option<Vec<Column>> {
    if alias.columns.is_empty() {
        return columns;
    }
    let kinds = columns.unwrap_or_default();
    let kind = |at: usize| kinds.get(at).map_or(Kind::Other, |column| column.kind.clone());
    Some(
        alias
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Column::new(&column.name.value, kind(at)))
            .collect(),
    )
}
