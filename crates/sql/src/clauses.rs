//! The clauses around the expressions. Those that are not there yet are named in the refusal.

use crate::error::SqlError;
use crate::expression::Expression;
use crate::lexer::Kind;
use crate::parser::Parser;

/// `FROM name [[AS] alias] [WHERE expression]`.
pub(crate) struct Source {
    /// The only name that expressions know: the alias, or else the source's own.
    pub alias: String,
    pub filter: Option<Expression>,
}

/// `SELECT * FROM …`
pub(crate) fn select_all(parser: &mut Parser<'_>) -> Result<Source, SqlError> {
    parser.expect_word("SELECT")?;
    for keyword in ["DISTINCT", "TOP", "VALUE"] {
        if parser.peek_is_word(keyword) {
            return Err(SqlError::unsupported(format!("SELECT {keyword}")));
        }
    }
    if !parser.accept_symbol("*") {
        // Anything that is an expression would be a projection.
        parser.expression()?;
        return Err(SqlError::unsupported("a projection other than *"));
    }
    if parser.peek().kind == Kind::End {
        return Err(SqlError::unsupported("SELECT * without FROM"));
    }
    source(parser)
}

/// Everything from `FROM` to the end of the text.
pub(crate) fn source(parser: &mut Parser<'_>) -> Result<Source, SqlError> {
    parser.expect_word("FROM")?;
    if parser.peek().kind == Kind::Symbol("(") {
        return Err(SqlError::unsupported("a subquery in FROM"));
    }
    let mut alias = parser.identifier()?;
    if parser.peek_is_word("IN") {
        return Err(SqlError::unsupported("iteration with IN in FROM"));
    }
    if let Kind::Symbol("." | "[") = parser.peek().kind {
        return Err(SqlError::unsupported("a path in FROM"));
    }
    let has_alias = parser.accept_word("AS") || (parser.peek().kind == Kind::Word && !next_is_clause(parser));
    if has_alias {
        alias = parser.identifier()?;
    }
    if parser.peek_is_word("JOIN") {
        return Err(SqlError::unsupported("JOIN"));
    }
    let filter = if parser.accept_word("WHERE") { Some(parser.expression()?) } else { None };
    for keyword in ["GROUP", "ORDER", "OFFSET"] {
        if parser.peek_is_word(keyword) {
            let feature =
                if keyword == "OFFSET" { "OFFSET LIMIT".to_string() } else { format!("{keyword} BY") };
            return Err(SqlError::unsupported(feature));
        }
    }
    match parser.peek().kind {
        Kind::End => Ok(Source { alias: alias.to_string(), filter }),
        _ => Err(parser.syntax_error_here()),
    }
}

fn next_is_clause(parser: &Parser<'_>) -> bool {
    ["JOIN", "WHERE", "GROUP", "ORDER", "OFFSET"].iter().any(|keyword| parser.peek_is_word(keyword))
}
