//! From query text to its syntax tree, and back to text.
//!
//! | file | what it does |
//! |---|---|
//! | `lexer.rs` | tokens with their places |
//! | `ast.rs` | the syntax tree |
//! | `parser.rs`, `clauses.rs` | expressions by precedence; the clauses around them |
//! | `cursor.rs` | stepping over tokens, for both |
//! | `parsed.rs` | what callers hold: the text and its tree |
//! | `template.rs` | text without its literals |
//! | `printer.rs` | trees as text: the service's spelling and the SDK's |

pub(crate) mod ast;
mod clauses;
mod cursor;
pub(crate) mod lexer;
mod parsed;
pub(crate) mod parser;
pub(crate) mod printer;
mod template;

use crate::error::SqlError;
use ast::{Collection, Expression, Query};
use lexer::Kind;
use parser::Parser;

pub use parsed::{Query as ParsedQuery, parse_query};
pub use template::{TEMPLATE_BYTES_MAX, template};

/// Bytes of query text (engine.md §1.2).
pub(crate) const TEXT_SIZE_BYTES_MAX: usize = 512 * 1024;

/// Reads a whole query.
pub(crate) fn parse(text: &str) -> Result<Query, SqlError> {
    check_size(text)?;
    let mut parser = Parser::new(text);
    let query = clauses::query(&mut parser)?;
    expect_end(&parser)?;
    Ok(query)
}

/// Reads `FROM … WHERE …`, the condition of a patch.
pub(crate) fn parse_condition(text: &str) -> Result<(Collection, Expression), SqlError> {
    check_size(text)?;
    let mut parser = Parser::new(text);
    parser.expect_word("FROM")?;
    let from = clauses::from(&mut parser)?;
    parser.expect_word("WHERE")?;
    let filter = parser.expression()?;
    expect_end(&parser)?;
    Ok((from, filter))
}

fn check_size(text: &str) -> Result<(), SqlError> {
    if text.len() > TEXT_SIZE_BYTES_MAX {
        return Err(SqlError::TooLong { size_bytes: text.len(), size_bytes_max: TEXT_SIZE_BYTES_MAX });
    }
    Ok(())
}

fn expect_end(parser: &Parser<'_>) -> Result<(), SqlError> {
    if parser.peek().kind == Kind::End { Ok(()) } else { Err(parser.syntax_error_here()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_grammar_parses() {
        for text in [
            "SELECT * FROM c",
            "SELECT DISTINCT TOP 5 VALUE c.name FROM c",
            "SELECT TOP @n c.a, c.b AS x, c.c \"quoted\", [1, {'a': 2}] FROM ROOT AS c WHERE c.a = 1",
            "SELECT VALUE t FROM c JOIN t IN c.tags JOIN (SELECT VALUE s FROM s IN t.sub) AS u WHERE EXISTS(SELECT VALUE 1)",
            "SELECT VALUE {a: 1} FROM x IN c.a['b'][0].d",
            "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team, LOWER(c['x'])",
            "SELECT * FROM c ORDER BY c.a, c.b DESC OFFSET 1 LIMIT @l",
            "SELECT * FROM c ORDER BY RANK FullTextScore(c.text, 'a')",
            "SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.a)",
            "SELECT VALUE ARRAY(SELECT VALUE x FROM x IN c.a) FROM c",
            "SELECT VALUE ALL(SELECT VALUE x FROM x IN c.a WHERE x > 1)",
            "SELECT VALUE (LET a = 1 IN a + 1)",
            "SELECT VALUE udf.f(1, c.x) FROM c WHERE c.x BETWEEN 1 AND 2 AND c.y IS NOT NULL",
        ] {
            assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn clauses_out_of_order_and_half_clauses_are_refused() {
        for text in [
            "SELECT",
            "SELECT *, c.a FROM c",
            "SELECT * FROM",
            "SELECT * FROM c ORDER BY c.a WHERE c.b",
            "SELECT * FROM c OFFSET 1",
            "SELECT * FROM c LIMIT 1",
            "SELECT * FROM c WHERE c.a IN ()",
            "SELECT * FROM c JOIN",
            "SELECT VALUE * FROM c",
            "SELECT TOP -1 * FROM c",
            "SELECT * FROM c HAVING c.a",
        ] {
            let refused =
                matches!(parse(text), Err(SqlError::Syntax { .. } | SqlError::UnexpectedEnd { .. }));
            assert!(refused, "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn mistakes_have_the_references_codes_texts_and_places() {
        for (text, code, message, start, end) in [
            ("selectttt", "SC1001", "Syntax error, incorrect syntax near 'selectttt'.", 0, 9),
            (
                "SELECT c.name FROM c OFFSET 10 LIMIT -1",
                "SC1001",
                "Syntax error, incorrect syntax near '-'.",
                37,
                38,
            ),
            ("SELECT 'é😀', FROM c", "SC1001", "Syntax error, incorrect syntax near 'FROM'.", 14, 18),
            ("SELECT * FROM @modules", "SC1001", "Syntax error, incorrect syntax near '@modules'.", 14, 22),
            ("SELECT * FROM c WHERE /* never", "SC1001", "Syntax error, incorrect syntax near '/*'.", 22, 24),
            ("SELECT * FROM c WHERE ", "SC1002", "Syntax error, unexpected end-of-file.", 22, 22),
            ("SELECT 1;", "SC1010", "Syntax error, invalid token ';'.", 8, 9),
            ("SELECT 'a", "SC1012", "Syntax error, invalid string literal token ''a'.", 7, 9),
            ("SELECT \"\\\"", "SC1012", "Syntax error, invalid string literal token '\"\\\"'.", 7, 10),
            ("SELECT '\\x'", "SC1012", "Syntax error, invalid string literal token ''\\x''.", 7, 11),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!((error.code(), error.to_string().as_str()), (Some(code), message), "{text}");
            assert_eq!(error.location(), Some(crate::Location { start, end }), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_whatever_nests() {
        for (open, close) in [
            ("(1+(", "))"),
            ("[", "]"),
            ("NOT ", ""),
            ("(SELECT VALUE ", ")"),
            ("EXISTS(SELECT VALUE ", ")"),
            ("f(", ")"),
        ] {
            let text = format!("SELECT VALUE {}1{}", open.repeat(20_000), close.repeat(20_000));
            assert!(matches!(parse(&text), Err(SqlError::TooDeep { .. })), "{open}");
        }
        // Parentheses that open together are only counted.
        let chain = format!("SELECT VALUE {}a{}", "(".repeat(20_000), " OR a)".repeat(20_000));
        let Ok(Query { select, .. }) = parse(&chain) else { panic!("long chains are no deep trees") };
        assert!(
            matches!(select.selection, ast::Selection::Value(Expression::Or(parts)) if parts.len() == 20_001)
        );
        let joins = format!("SELECT * FROM c{}", " JOIN x IN c.a".repeat(11));
        assert!(matches!(parse(&joins), Err(SqlError::TooManyJoins { .. })));
    }
}
