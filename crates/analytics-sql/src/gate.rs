//! The statements that a query may be: one that only reads. Everything else is refused by its name before it is planned.

use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::protocol::{Failure, FailureKind};

/// Nesting of expressions and subqueries.
const DEPTH_MAX: usize = 64;

pub(crate) fn parse(text: &str) -> Result<EngineStatement, Failure> {
    let parser = Parser::new(&GenericDialect {}).with_recursion_limit(DEPTH_MAX);
    let parsed = parser.try_with_sql(text).and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| placed(wrong(&error), text))?;
    if statements.len() > 1 {
        return Err(Failure::new(FailureKind::Statement, "a query is one statement: send the others apart"));
    }
    let Some(statement) = statements.pop() else {
        return Err(Failure::new(FailureKind::Statement, "the query is empty: send a SELECT"));
    };
    if !only_reads(&statement) {
        let written = statement.to_string();
        let name = written.split([' ', '(']).next().unwrap_or_default().to_uppercase();
        return Err(Failure::new(
            FailureKind::Statement,
            format!("{name} statements are refused: tables are only read, with SELECT, WITH, EXPLAIN, DESCRIBE or SHOW TABLES"),
        ));
    }
    Ok(EngineStatement::Statement(Box::new(statement)))
}

fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Query(_) | Statement::ExplainTable { .. } | Statement::ShowTables { .. } => true,
        Statement::Explain { statement, .. } => matches!(**statement, Statement::Query(_)),
        _ => false,
    }
}

/// An error without a place is one at the end of the text.
fn placed(failure: Failure, text: &str) -> Failure {
    if failure.line.is_some() || !failure.message.ends_with("EOF") {
        return failure;
    }
    let last = text.rsplit('\n').next().unwrap_or_default();
    failure.at(text.matches('\n').count() as u64 + 1, last.chars().count() as u64 + 1)
}

/// The parser's words, with the place in the text as numbers.
pub(crate) fn wrong(error: &ParserError) -> Failure {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => {
            format!("the statement is nested deeper than {DEPTH_MAX} levels: write it flatter")
        }
    };
    let place = message.rsplit_once(" at Line: ").and_then(|(words, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((words.to_owned(), line.trim().parse().ok()?, column.trim().parse().ok()?))
    });
    match place {
        Some((words, line, column)) => Failure::new(FailureKind::Statement, words).at(line, column),
        None => Failure::new(FailureKind::Statement, message),
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
            Token::Word(_) | Token::Placeholder(_) | Token::Comma | Token::Period | Token::LParen | Token::RParen => {
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
    text.len() <= 3 && text.chars().all(|character| character.is_ascii_punctuation() && character != '\'' && character != '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Failure {
        parse(text).expect_err(text)
    }

    #[test]
    fn statements_that_read_pass() {
        for text in [
            "SELECT 1",
            "select a from t;",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE SELECT 1",
            "DESCRIBE customer",
            "SHOW TABLES",
            "VALUES (1)",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_statements_are_refused_by_their_name() {
        for (text, name) in [
            ("INSERT INTO t VALUES (1)", "INSERT"),
            ("copy t to 'x.csv'", "COPY"),
            ("SET a = 1", "SET"),
            ("EXPLAIN DELETE FROM t", "EXPLAIN"),
            ("CREATE TABLE t (a INT)", "CREATE"),
            ("DROP TABLE t", "DROP"),
            ("SHOW ALL", "SHOW"),
        ] {
            let failure = refusal(text);
            assert_eq!(failure.kind, FailureKind::Statement);
            assert!(failure.message.starts_with(&format!("{name} statements are refused")), "{failure:?}");
        }
        assert!(refusal("SELECT 1; SELECT 2").message.contains("one statement"));
        assert!(refusal("").message.contains("empty"));
    }

    #[test]
    fn errors_have_their_place() {
        let failure = refusal("SELECT 1\nFROM WHERE");
        assert_eq!((failure.line, failure.column), (Some(2), Some(6)), "{failure:?}");
        let nested = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(refusal(&nested).message.contains("nested"), "bounded");
    }

    #[test]
    fn templates_have_no_literals() {
        let text = "SELECT a.b, 12.5 FROM t\n WHERE c = 'secret' AND d <> $p -- words\n LIMIT 5";
        assert_eq!(template(text), "SELECT a.b, ? FROM t WHERE c = ? AND d <> $p LIMIT ?");
        assert_eq!(template("SELECT 'open"), "(not readable)");
    }
}
