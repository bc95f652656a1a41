//! Synapse's `OPENROWSET('CosmosDB', …) WITH (…)`, replaced by the table that it names with its columns cast.

use sqlparser::ast::DataType;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::access::Typed;
use crate::catalog::{Kind, Settings, Table};
use crate::error::{Checked, DialectError, Refusal, of_parser, refuse};
use crate::grammar;
use crate::json_path::{self, Step};
use crate::tables::{self, Found};
use crate::types;

const FORM: &str = "write the table itself: FROM database.container";

/// Replaces each OPENROWSET in the tokens. Returns whether there was one.
pub(crate) fn replaced(tokens: &mut Vec<TokenWithSpan>, settings: &Settings<'_>) -> Checked<bool> {
    let mut is_replaced = false;
    while let Some(start) = tokens.iter().position(|token| is_named(token, "OPENROWSET")) {
        let mut parser = grammar::parser_over(&tokens[start + 1..]);
        let at = tokens[start].span.start;
        let call = Call::parse(&mut parser, at)?;
        let text = call.text(settings, at)?;
        // The parser stands behind the call; the rest of the tokens stays as it is.
        let rest = parser.peek_token().span.start;
        let end = tokens[start..]
            .iter()
            .position(|token| token.token == Token::EOF || token.span.start == rest && is_solid(token));
        let end = end.map_or(tokens.len(), |end| start + end);
        let span = tokens[start].span;
        tokens.splice(start..end, grammar::generated(&text, span)?);
        is_replaced = true;
    }
    Ok(is_replaced)
}

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

fn is_named(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

struct Call {
    database: Option<String>,
    container: String,
    columns: Vec<Declared>,
}

struct Declared {
    name: String,
    data_type: DataType,
    path: Option<String>,
    at: Location,
}

impl Call {
    fn parse(parser: &mut Parser<'_>, at: Location) -> Checked<Call> {
        let malformed = |error| unreadable(error, at);
        parser.expect_token(&Token::LParen).map_err(malformed)?;
        let mut call = match parser.peek_token().token {
            Token::SingleQuotedString(_) => by_place(parser, at)?,
            _ => by_name(parser, at)?,
        };
        parser.expect_token(&Token::RParen).map_err(malformed)?;
        if parser.parse_keyword(Keyword::WITH) {
            parser.expect_token(&Token::LParen).map_err(malformed)?;
            loop {
                call.columns.push(declared(parser, at)?);
                if !parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            parser.expect_token(&Token::RParen).map_err(malformed)?;
        }
        Ok(call)
    }

    fn text(&self, settings: &Settings<'_>, at: Location) -> Checked<String> {
        let place = |name: &str| sqlparser::ast::Ident {
            span: sqlparser::tokenizer::Span::new(at, at),
            ..tables::ident(name)
        };
        let mut parts: Vec<_> = self.database.iter().map(|database| place(database)).collect();
        parts.push(place(&self.container));
        let Found::Table(table) = tables::table(settings, &parts)? else {
            return refuse(at, "OPENROWSET reads containers alone", FORM);
        };
        if self.columns.is_empty() {
            return Ok(tables::full(table));
        }
        let columns = self.columns.iter().map(|column| column.text(table));
        let columns = columns.collect::<Checked<Vec<_>>>()?.join(", ");
        Ok(format!("(SELECT {columns} FROM {})", tables::full(table)))
    }
}

impl Declared {
    fn text(&self, table: &Table) -> Checked<String> {
        let path = self.path.clone().unwrap_or_else(|| format!("$.\"{}\"", self.name));
        let steps = json_path::parse(&path, self.at)?;
        let Some((Step::Member(first), rest)) = steps.split_first() else {
            return refuse(
                self.at,
                format!("'{path}' is a whole document"),
                "declare a column for each property",
            );
        };
        let name = tables::ident(first);
        let quoted = sqlparser::ast::Ident::with_quote('"', first);
        let (name, kind) = match tables::column(&table.columns, &quoted) {
            Some(column) => (tables::ident(&column.name), column.kind.clone()),
            None if table.columns.is_empty() => (name, Kind::Other),
            None => {
                let known = table.columns.iter().map(|column| column.name.as_str());
                let hint = tables::column_hint(first, known);
                return refuse(self.at, format!("{} has no column '{first}'", tables::full(table)), hint);
            }
        };
        let column = Typed::new(sqlparser::ast::Expr::Identifier(name), kind).at(rest, self.at)?;
        let cast = types::cast_column(column.expr, &self.data_type, &column.kind, self.at)?;
        let alias = tables::ident(&self.name);
        match &cast {
            sqlparser::ast::Expr::Identifier(name) if name.value == self.name => Ok(alias.to_string()),
            cast => Ok(format!("{cast} AS {alias}")),
        }
    }
}

/// A mistake in the call. The parser's own message may repeat the connection string, whose key is a secret.
fn unreadable(error: ParserError, at: Location) -> Refusal {
    let place = of_parser(error, at);
    Box::new(DialectError {
        message: "OPENROWSET is not written as 'CosmosDB', 'Account=…;Database=…;Key=…', container"
            .to_owned(),
        hint: Some(FORM.to_owned()),
        ..*place
    })
}

fn text(parser: &mut Parser<'_>, at: Location) -> Checked<String> {
    parser.parse_literal_string().map_err(|error| unreadable(error, at))
}

/// `'CosmosDB', 'Account=…;Database=…;Key=…', Container`
fn by_place(parser: &mut Parser<'_>, at: Location) -> Checked<Call> {
    let provider = text(parser, at)?;
    is_provider(&provider, at)?;
    parser.expect_token(&Token::Comma).map_err(|error| unreadable(error, at))?;
    let connection = text(parser, at)?;
    parser.expect_token(&Token::Comma).map_err(|error| unreadable(error, at))?;
    let container = match parser.peek_token().token {
        Token::SingleQuotedString(_) => text(parser, at)?,
        _ => parser.parse_identifier().map_err(|error| unreadable(error, at))?.value,
    };
    Ok(Call { database: database(&connection), container, columns: Vec::new() })
}

/// `PROVIDER = 'CosmosDB', CONNECTION = '…', OBJECT = 'Container', CREDENTIAL = '…'`
fn by_name(parser: &mut Parser<'_>, at: Location) -> Checked<Call> {
    let mut call = Call { database: None, container: String::new(), columns: Vec::new() };
    let mut has_provider = false;
    loop {
        let name = parser.parse_identifier().map_err(|error| unreadable(error, at))?;
        if name.value.eq_ignore_ascii_case("BULK") {
            return refuse(at, "OPENROWSET(BULK …) reads files, which SQL here cannot", FORM);
        }
        parser.expect_token(&Token::Eq).map_err(|error| unreadable(error, at))?;
        let value = text(parser, at)?;
        match name.value.to_ascii_uppercase().as_str() {
            "PROVIDER" => {
                is_provider(&value, at)?;
                has_provider = true;
            }
            "CONNECTION" => call.database = database(&value),
            "OBJECT" => call.container = value,
            "CREDENTIAL" | "SERVER_CREDENTIAL" => {}
            _ => return refuse(name.span.start, format!("OPENROWSET knows no '{}'", name.value), FORM),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if !has_provider || call.container.is_empty() {
        return refuse(at, "OPENROWSET needs PROVIDER, CONNECTION and OBJECT", FORM);
    }
    Ok(call)
}

fn is_provider(provider: &str, at: Location) -> Checked<()> {
    match provider.eq_ignore_ascii_case("CosmosDB") {
        true => Ok(()),
        false => refuse(at, format!("OPENROWSET reads 'CosmosDB', not '{provider}'"), FORM),
    }
}

/// The database of a connection string. Account and key are not used, and are repeated nowhere.
fn database(connection: &str) -> Option<String> {
    let pairs = connection.split(';').filter_map(|pair| pair.split_once('='));
    let database = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("database"));
    database.map(|(_, value)| value.trim().to_owned())
}

fn declared(parser: &mut Parser<'_>, at: Location) -> Checked<Declared> {
    let name = parser.parse_identifier().map_err(|error| unreadable(error, at))?;
    let place = name.span.start;
    let data_type = parser.parse_data_type().map_err(|error| unreadable(error, place))?;
    if parser.parse_keyword(Keyword::COLLATE) {
        let collation =
            parser.parse_object_name(false).map_err(|error| unreadable(error, place))?.to_string();
        if !collation.to_ascii_uppercase().contains("_BIN") {
            return refuse(
                place,
                format!("texts are compared by their code points, not by {collation}"),
                "leave COLLATE out or write a BIN2 collation, and compare lower(…) where case must not matter",
            );
        }
    }
    let path = match parser.peek_token().token {
        Token::SingleQuotedString(_) => Some(text(parser, place)?),
        _ => None,
    };
    Ok(Declared { name: name.value, data_type, path, at: place })
}
