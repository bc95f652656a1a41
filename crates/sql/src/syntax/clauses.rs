//! The clauses around the expressions, in the order of the grammar.

use super::ast::{
    Collection, Count, CountValue, Direction, Expression, GroupKey, Identifier, OffsetLimit, OrderBy,
    OrderKey, PathStep, Query, Select, SelectItem, Selection, Source,
};
use super::cursor::Parser;
use super::lexer::{Kind, hexadecimal, is_reserved};
use crate::error::{LanguageLimit, SqlError};

pub(super) fn query(parser: &mut Parser<'_>) -> Result<Query, SqlError> {
    let first = parser.peek();
    let select = select(parser)?;
    let from = if parser.accept_word("FROM") { Some(from(parser)?) } else { None };
    let filter = if parser.accept_word("WHERE") { Some(parser.expression()?) } else { None };
    let group_by = group_by(parser)?;
    let order_by = order_by(parser)?;
    let offset_limit = offset_limit(parser)?;
    Ok(Query { select, from, filter, group_by, order_by, offset_limit, span: parser.span_from(first) })
}

fn select(parser: &mut Parser<'_>) -> Result<Select, SqlError> {
    let first = parser.peek();
    parser.expect_word("SELECT")?;
    let distinct = parser.accept_word("DISTINCT");
    let top_token = parser.peek();
    let top = if parser.accept_word("TOP") { Some(count(parser)?) } else { None };
    let top_span = top.as_ref().map(|_| parser.span_from(top_token)).unwrap_or_default();
    let selection = selection(parser)?;
    Ok(Select { distinct, top, selection, top_span, span: parser.span_from(first) })
}

fn selection(parser: &mut Parser<'_>) -> Result<Selection, SqlError> {
    if parser.accept_symbol("*") {
        return Ok(Selection::All);
    }
    if parser.accept_word("VALUE") {
        return Ok(Selection::Value(parser.expression()?));
    }
    let mut items = Vec::new();
    loop {
        let expression = parser.expression()?;
        let alias = select_alias(parser)?;
        let is_quoted = alias.is_none() && matches!(expression, Expression::Property { quoted: true, .. });
        let name_span = if is_quoted { parser.last_string() } else { parser.last_span() };
        items.push(SelectItem { expression, alias, name_span });
        if !parser.accept_symbol(",") {
            return Ok(Selection::Items(items));
        }
    }
}

/// `[AS] name` or `[AS] "name"`.
fn select_alias(parser: &mut Parser<'_>) -> Result<Option<String>, SqlError> {
    let required = parser.accept_word("AS");
    match parser.peek().kind {
        Kind::String => parser.string().map(Some),
        Kind::Word if required || !is_reserved(parser.text_of(parser.peek())) => {
            parser.identifier().map(|name| Some(name.to_string()))
        }
        _ if required => Err(parser.syntax_error_here()),
        _ => Ok(None),
    }
}

pub(super) fn from(parser: &mut Parser<'_>) -> Result<Collection, SqlError> {
    let mut collection = collection(parser)?;
    for joins in 1.. {
        if !parser.accept_word("JOIN") {
            break;
        }
        if joins > LanguageLimit::Joins.most() {
            return Err(parser.beyond(LanguageLimit::Joins));
        }
        let right = self::collection(parser)?;
        collection = Collection::Join { left: Box::new(collection), right: Box::new(right) };
    }
    Ok(collection)
}

fn collection(parser: &mut Parser<'_>) -> Result<Collection, SqlError> {
    if parser.peek().kind != Kind::Symbol("(") {
        let name = parser.identifier_token()?;
        if parser.accept_word("IN") {
            return Ok(Collection::Iterate { alias: name, source: source(parser)? });
        }
        let source = path(parser, name)?;
        return Ok(Collection::Aliased { source, alias: alias(parser)? });
    }
    let source = source(parser)?;
    Ok(Collection::Aliased { source, alias: alias(parser)? })
}

fn source(parser: &mut Parser<'_>) -> Result<Source, SqlError> {
    if parser.peek().kind == Kind::Symbol("(") {
        return parser.subquery_source().map(|query| Source::Subquery(Box::new(query)));
    }
    let name = parser.identifier_token()?;
    path(parser, name)
}

fn path(parser: &mut Parser<'_>, root: Identifier) -> Result<Source, SqlError> {
    let mut path = Vec::new();
    loop {
        if parser.accept_symbol(".") {
            path.push(PathStep::Name { name: parser.identifier()?.to_string(), quoted: false });
        } else if parser.accept_symbol("[") {
            path.push(index(parser)?);
            parser.expect_symbol("]")?;
        } else {
            return Ok(Source::Path { root, path });
        }
    }
}

fn index(parser: &mut Parser<'_>) -> Result<PathStep, SqlError> {
    let token = parser.peek();
    if token.kind == Kind::String {
        return Ok(PathStep::Name { name: parser.string()?, quoted: true });
    }
    parser.advance();
    match parser.text_of(token).parse() {
        Ok(index) if token.kind == Kind::Number => Ok(PathStep::Index(index)),
        _ => Err(parser.syntax_error(token)),
    }
}

fn alias(parser: &mut Parser<'_>) -> Result<Option<Identifier>, SqlError> {
    let required = parser.accept_word("AS");
    let next = parser.peek();
    if required || (next.kind == Kind::Word && !is_reserved(parser.text_of(next))) {
        return parser.identifier_token().map(Some);
    }
    Ok(None)
}

fn group_by(parser: &mut Parser<'_>) -> Result<Vec<GroupKey>, SqlError> {
    if !parser.accept_word("GROUP") {
        return Ok(Vec::new());
    }
    parser.expect_word("BY")?;
    let mut keys = Vec::new();
    loop {
        let first = parser.peek();
        let expression = parser.expression()?;
        keys.push(GroupKey { expression, span: parser.span_from(first) });
        if !parser.accept_symbol(",") {
            return Ok(keys);
        }
    }
}

fn order_by(parser: &mut Parser<'_>) -> Result<Option<OrderBy>, SqlError> {
    let first = parser.peek();
    if !parser.accept_word("ORDER") {
        return Ok(None);
    }
    parser.expect_word("BY")?;
    if parser.peek_is_rank() {
        parser.advance();
        let token = parser.peek();
        parser.expect_call()?;
        let call = parser.expression()?;
        if !matches!(call, Expression::Call { .. }) {
            return Err(parser.syntax_error(token));
        }
        let direction = direction(parser);
        return Ok(Some(OrderBy::Rank { call, direction, span: parser.span_from(first) }));
    }
    let mut keys = Vec::new();
    loop {
        let token = parser.peek();
        let expression = parser.expression()?;
        let span = parser.span_from(token);
        keys.push(OrderKey { expression, direction: direction(parser), span });
        if !parser.accept_symbol(",") {
            return Ok(Some(OrderBy::Keys { keys, span: parser.span_from(first) }));
        }
    }
}

fn direction(parser: &mut Parser<'_>) -> Option<Direction> {
    if parser.accept_word("ASC") {
        return Some(Direction::Ascending);
    }
    parser.accept_word("DESC").then_some(Direction::Descending)
}

fn offset_limit(parser: &mut Parser<'_>) -> Result<Option<OffsetLimit>, SqlError> {
    let first = parser.peek();
    if !parser.accept_word("OFFSET") {
        return Ok(None);
    }
    let offset = whole_count(parser)?;
    parser.expect_word("LIMIT")?;
    let limit = whole_count(parser)?;
    Ok(Some(OffsetLimit { offset, limit, span: parser.span_from(first) }))
}

/// A number of `OFFSET` and `LIMIT` is written without a fraction or an exponent.
fn whole_count(parser: &mut Parser<'_>) -> Result<Count, SqlError> {
    let token = parser.peek();
    if token.kind == Kind::Number && !is_whole(parser.text_of(token)) {
        return Err(parser.syntax_error(token));
    }
    count(parser)
}

fn is_whole(token: &str) -> bool {
    hexadecimal(token).is_some() || token.parse::<i64>().is_ok()
}

fn count(parser: &mut Parser<'_>) -> Result<Count, SqlError> {
    let token = parser.advance();
    let value = match token.kind {
        Kind::Number => CountValue::Number(parser.number_value(token, false)?),
        Kind::Parameter => CountValue::Parameter(parser.text_of(token).to_string()),
        _ => return Err(parser.syntax_error(token)),
    };
    Ok(Count { value, span: parser.span_from(token) })
}
