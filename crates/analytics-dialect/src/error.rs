//! A refused statement: its place, and the form to write instead.

use std::ops::ControlFlow;

use sqlparser::ast::Spanned;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, TokenizerError};

use crate::catalog::TableName;

/// Longest part of a statement that a message repeats.
const QUOTED_CHARS_MAX: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}{}", hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct DialectError {
    pub message: String,
    /// Line and column count from 1.
    pub line: u64,
    pub column: u64,
    /// The form to write instead.
    pub hint: Option<String>,
    /// The table that the statement names and that is not there.
    pub table: Option<TableName>,
}

pub(crate) type Refusal = Box<DialectError>;
pub(crate) type Checked<T> = Result<T, Refusal>;

pub(crate) fn refuse<T>(at: Location, message: impl Into<String>, hint: impl Into<String>) -> Checked<T> {
    let hint = hint.into();
    Err(Box::new(DialectError {
        message: message.into(),
        line: at.line.max(1),
        column: at.column.max(1),
        hint: Some(hint).filter(|hint| !hint.is_empty()),
        table: None,
    }))
}

/// Start of a part of a statement.
pub(crate) fn place(node: &impl Spanned) -> Location {
    node.span().start
}

/// Text of a part of a statement, shortened for a message.
pub(crate) fn quoted(node: &impl std::fmt::Display) -> String {
    let text = node.to_string();
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) fn flow(checked: Checked<()>) -> ControlFlow<Refusal> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(refusal) => ControlFlow::Break(refusal),
    }
}

pub(crate) fn checked(flow: ControlFlow<Refusal>) -> Checked<()> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

pub(crate) fn of_tokenizer(error: TokenizerError) -> Refusal {
    Box::new(DialectError {
        message: error.message,
        line: error.location.line.max(1),
        column: error.location.column.max(1),
        hint: None,
        table: None,
    })
}

/// The parser writes the place at the end of its message.
pub(crate) fn of_parser(error: ParserError, end: Location) -> Refusal {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    };
    let (text, at) = match message.rsplit_once(" at Line: ") {
        None => (message.as_str(), end),
        Some((text, place)) => {
            let mut numbers = place.split(", Column: ").map(|number| number.trim().parse::<u64>());
            let at = match (numbers.next(), numbers.next()) {
                (Some(Ok(line)), Some(Ok(column))) => Location { line, column },
                _ => end,
            };
            (text, at)
        }
    };
    let text = text.replacen("Expected: ", "expected ", 1).replacen(", found: ", " but found ", 1);
    let text = quoted(&text.replace("but found EOF", "but the text ends"));
    Box::new(DialectError {
        message: text,
        line: at.line.max(1),
        column: at.column.max(1),
        hint: None,
        table: None,
    })
}
