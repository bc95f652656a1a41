//! The text of a statement on its way to the query engine: `analytics-dialect` refuses everything that does more than read, and rewrites
//! the rest to the engine's language. Also statements without their literals, for logs and lists.

use arrow_schema::{DataType, Fields, Schema};
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use shardlake_analytics_dialect::{Column, DialectError, Kind, Parsed, Settings, Table, parse};

use crate::protocol::{Failure, FailureKind};
use crate::table::Catalog;

/// A statement that may be planned.
pub(crate) struct Checked {
    pub statement: EngineStatement,
    /// Tables that it names, by database and container.
    pub tables: Vec<(String, String)>,
}

/// Tables that a statement names, found without opening one.
pub(crate) fn named(text: &str, database: Option<&str>, catalog: &Catalog) -> Result<Checked, Failure> {
    let tables = described(catalog, |_, _| Vec::new());
    match parse(text, &Settings { database, tables: &tables }) {
        Ok(parsed) => Ok(checked(parsed)),
        // Some rewriting depends on types: with all of them the refusal stands, or is none.
        Err(_) => checked_with(
            text,
            database,
            &described(catalog, |database, container| columns(catalog, database, container)),
        ),
    }
}

/// The statement, rewritten by the types of the tables that it names.
pub(crate) fn rewritten(
    text: &str,
    database: Option<&str>,
    catalog: &Catalog,
    named: &[(String, String)],
) -> Result<Checked, Failure> {
    let tables = described(catalog, |database, container| {
        let is_named = named.iter().any(|name| name.0 == database && name.1 == container);
        if is_named { columns(catalog, database, container) } else { Vec::new() }
    });
    checked_with(text, database, &tables)
}

fn checked_with(text: &str, database: Option<&str>, tables: &[Table]) -> Result<Checked, Failure> {
    let parsed = parse(text, &Settings { database, tables });
    parsed.map(checked).map_err(|refusal| failure(&refusal))
}

fn checked(parsed: Parsed) -> Checked {
    let tables = parsed.tables.into_iter().map(|name| (name.database, name.container)).collect();
    Checked { statement: EngineStatement::Statement(Box::new(parsed.statement)), tables }
}

fn failure(refusal: &DialectError) -> Failure {
    let failure = Failure::new(FailureKind::Statement, refusal.message.clone());
    let table = refusal.table.clone().map(|name| Box::new((name.database, name.container)));
    Failure { hint: refusal.hint.clone(), table, ..failure.at(refusal.line, refusal.column) }
}

fn described(catalog: &Catalog, columns: impl Fn(&str, &str) -> Vec<Column>) -> Vec<Table> {
    let tables = catalog.tables().iter().map(|table| Table {
        database: table.database.clone(),
        container: table.container.clone(),
        columns: columns(&table.database, &table.container),
    });
    tables.collect()
}

/// Columns of a table; none where it cannot be read, which planning reports.
fn columns(catalog: &Catalog, database: &str, container: &str) -> Vec<Column> {
    let opened = catalog.open(database, container).ok().flatten();
    opened.map_or_else(Vec::new, |table| of_schema(&table.columns()))
}

fn of_schema(schema: &Schema) -> Vec<Column> {
    of_fields(schema.fields())
}

fn of_fields(fields: &Fields) -> Vec<Column> {
    fields.iter().map(|field| Column::new(field.name(), kind(field.data_type()))).collect()
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Int64 | DataType::Int32 => Kind::Long,
        DataType::Float64 => Kind::Double,
        DataType::Utf8 | DataType::Utf8View => Kind::Text,
        DataType::Struct(fields) => Kind::Struct(of_fields(fields)),
        DataType::List(element) => Kind::List(Box::new(kind(element.data_type()))),
        _ => Kind::Other,
    }
}

/// The statement without its literals, for logs and lists.
pub(crate) fn template(text: &str) -> String {
    const BYTES_MAX: usize = 2_048;
    let text = &text[..text.floor_char_boundary(4 * BYTES_MAX)];
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else {
        return "(not readable)".into();
    };
    let mut template = String::new();
    for token in tokens {
        match token {
            Token::Word(_)
            | Token::Placeholder(_)
            | Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen => {
                template.push_str(&token.to_string());
            }
            Token::Whitespace(_) => {
                if !template.ends_with(' ') {
                    template.push(' ');
                }
            }
            token if is_sign(&token) => template.push_str(&token.to_string()),
            _ => template.push('?'),
        }
    }
    template.truncate(template.floor_char_boundary(BYTES_MAX));
    template.trim().to_owned()
}

/// Operators and brackets: tokens without letters and digits.
fn is_sign(token: &Token) -> bool {
    let text = token.to_string();
    text.len() <= 3
        && text
            .chars()
            .all(|character| character.is_ascii_punctuation() && character != '\'' && character != '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_no_literals() {
        let text = "SELECT a.b, 12.5 FROM t\n WHERE c = 'secret' AND d <> $p -- words\n LIMIT 5";
        assert_eq!(template(text), "SELECT a.b, ? FROM t WHERE c = ? AND d <> $p LIMIT ?");
        assert_eq!(template("SELECT 'open"), "(not readable)");
    }
}
