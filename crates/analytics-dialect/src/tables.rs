//! Names of tables and columns: found exactly, or refused with the right name.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::Location;

use crate::catalog::{Column, Kind, Settings, Table, TableName, column_of_property};
use crate::error::{Checked, refuse};

/// Tables that describe the others.
const INFORMATION: &str = "information_schema";
/// Names that are less alike are not offered.
const LIKENESS_MIN: f64 = 0.6;
/// Names of tables in a hint.
const NAMES_MAX: usize = 8;

/// A table of the statement.
pub(crate) enum Found<'t> {
    Table(&'t Table),
    /// A table of `information_schema`.
    Information,
}

pub(crate) fn table<'t>(settings: &Settings<'t>, parts: &[Ident]) -> Checked<Found<'t>> {
    match parts {
        [container] => {
            let at = container.span.start;
            let Some(database) = settings.database else {
                let with = settings.tables.iter().find(|table| table.container == container.value);
                let hint = match with {
                    Some(table) => format!("write {}", full(table)),
                    None => "write database.container, or give the request a database".to_owned(),
                };
                return refuse(at, format!("the table '{}' has no database", container.value), hint);
            };
            of_database(settings, database, at, container)
        }
        [database, _] if database.value.eq_ignore_ascii_case(INFORMATION) => Ok(Found::Information),
        [database, container] => of_database(settings, &database.value, database.span.start, container),
        parts => {
            let at = parts.first().map_or(Location { line: 1, column: 1 }, |part| part.span.start);
            refuse(
                at,
                "a table has a database and a container",
                "write database.container, and odd names in double quotes",
            )
        }
    }
}

fn of_database<'t>(
    settings: &Settings<'t>,
    database: &str,
    at: Location,
    container: &Ident,
) -> Checked<Found<'t>> {
    let exact = |table: &&Table| table.database == database && table.container == container.value;
    if let Some(table) = settings.tables.iter().find(exact) {
        return Ok(Found::Table(table));
    }
    unknown_table(settings, database, at, container).map_err(|mut refusal| {
        refusal.table = Some(TableName { database: database.to_owned(), container: container.value.clone() });
        refusal
    })
}

fn unknown_table<'t>(
    settings: &Settings<'t>,
    database: &str,
    at: Location,
    container: &Ident,
) -> Checked<Found<'t>> {
    let unknown = format!("there is no table '{database}.{}'", container.value);
    let names =
        settings.tables.iter().map(|table| (full(table), format!("{}.{}", table.database, table.container)));
    let names: Vec<(String, String)> = names.collect();
    let asked = format!("{database}.{}", container.value);
    let other_case = names.iter().find(|(_, plain)| plain.to_lowercase() == asked.to_lowercase());
    if let Some((written, _)) = other_case {
        return refuse(at, unknown, format!("names keep their case: write {written}"));
    }
    let near = near(&asked, names.iter().map(|(_, plain)| plain.as_str()));
    let near = near.and_then(|near| names.iter().find(|(_, plain)| plain == near));
    let hint = match near {
        Some((written, _)) => format!("did you mean {written}? SHOW TABLES lists all"),
        None => names_of(settings, database),
    };
    refuse(at, unknown, hint)
}

/// The hint for a name that no other is like.
fn names_of(settings: &Settings<'_>, database: &str) -> String {
    let of_database = settings.tables.iter().filter(|table| table.database == database);
    let mut names: Vec<String> = of_database.map(|table| written(&table.container)).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    names.truncate(NAMES_MAX);
    match names.is_empty() {
        true => {
            "SHOW TABLES lists the tables; a container has one once its analytical store is on".to_owned()
        }
        false => format!("the database has {}{more}; SHOW TABLES lists all", names.join(", ")),
    }
}

pub(crate) fn full(table: &Table) -> String {
    format!("{}.{}", written(&table.database), written(&table.container))
}

/// Identifiers of a table's name.
pub(crate) fn parts(name: &ObjectName) -> Checked<Vec<Ident>> {
    let ident = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(ident.clone()),
        ObjectNamePart::Function(function) => {
            refuse(function.name.span.start, "a table's name is no function", "")
        }
    };
    name.0.iter().map(ident).collect()
}

/// A name as a statement writes it: in quotes unless it is plain.
pub(crate) fn written(name: &str) -> String {
    ident(name).to_string()
}

pub(crate) fn ident(name: &str) -> Ident {
    let is_plain = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !is_keyword(name);
    if is_plain { Ident::new(name) } else { Ident::with_quote('"', name) }
}

fn is_keyword(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    sqlparser::keywords::ALL_KEYWORDS.binary_search(&name.as_str()).is_ok_and(|index| {
        let keyword = sqlparser::keywords::ALL_KEYWORDS_INDEX[index];
        sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS.contains(&keyword)
            || sqlparser::keywords::RESERVED_FOR_COLUMN_ALIAS.contains(&keyword)
            || sqlparser::keywords::RESERVED_FOR_IDENTIFIER.contains(&keyword)
    })
}

/// A column among others: by its name, or by the property that it holds.
pub(crate) fn column<'c>(columns: &'c [Column], name: &Ident) -> Option<&'c Column> {
    let exact = columns.iter().find(|column| column.name == name.value);
    exact.or_else(|| {
        let property = name.quote_style.map(|_| column_of_property(&name.value))?;
        columns.iter().find(|column| column.name == property)
    })
}

/// The hint for an unknown column.
pub(crate) fn column_hint<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    let lower = name.to_lowercase();
    if let Some(right) = known.clone().find(|known| known.to_lowercase() == lower) {
        return format!("names keep their case: write {}", written(right));
    }
    match near(name, known) {
        Some(near) => format!("did you mean {}?", written(near)),
        None => "DESCRIBE and the name of the table lists its columns; values without a column are in _rest"
            .to_owned(),
    }
}

fn near<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = name.to_lowercase();
    let likeness = |known: &&'n str| strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase());
    let scored = known.map(|known| (likeness(&known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).map(|(_, known)| known)
}

/// Members of a struct in full fidelity that Spark names by the width of a number, and that NoSQL accounts keep as `num`.
const NUMBER_MEMBERS: &[&str] = &["int32", "int64", "float64"];

/// The type of a member below a column, and the member's name in the table.
pub(crate) fn member<'k>(kind: &'k Kind, name: &str, at: Location) -> Checked<(String, &'k Kind)> {
    let fields = match kind {
        Kind::Struct(fields) => fields,
        Kind::Other => return Ok((name.to_owned(), &Kind::Other)),
        Kind::List(_) => {
            return refuse(
                at,
                format!("'{name}' is no member of a list"),
                "make rows of the list first: CROSS JOIN UNNEST(list) AS x, then x.member",
            );
        }
        _ => {
            return refuse(
                at,
                format!("'{name}' is no member of a plain value"),
                "DESCRIBE lists columns with types",
            );
        }
    };
    if let Some(field) = fields.iter().find(|field| field.name == name) {
        return Ok((field.name.clone(), &field.kind));
    }
    let number = fields.iter().find(|field| field.name == "num").filter(|_| NUMBER_MEMBERS.contains(&name));
    if let Some(number) = number {
        return Ok((number.name.clone(), &number.kind));
    }
    let property = column_of_property(name);
    if let Some(field) = fields.iter().find(|field| field.name == property) {
        return Ok((field.name.clone(), &field.kind));
    }
    let known = fields.iter().map(|field| field.name.as_str());
    refuse(at, format!("there is no member '{name}'"), column_hint(name, known))
}
