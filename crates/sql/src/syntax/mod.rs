//! From query text to its syntax tree, and back to text.
//!
//! | file | contents |
//! |---|---|
//! | `lexer.rs` | tokens with their places |
//! | `ast.rs` | the syntax tree |
//! | `parser.rs`, `clauses.rs` | expressions by precedence; the clauses around them |
//! | `cursor.rs` | the state of the parser; stepping over tokens |
//! | `parsed.rs` | a parsed query: the text and its tree |
//! | `outline.rs` | its clauses in words, for displayed plans |
//! | `template.rs` | text without its literals |
//! | `printer.rs` | trees as text: the service's spelling and the SDK's |

pub(crate) mod ast;
mod clauses;
mod cursor;
pub(crate) mod lexer;
mod outline;
mod parsed;
pub(crate) mod parser;
pub(crate) mod printer;
mod template;

use crate::error::{LanguageLimit, SqlError};
use ast::{Collection, Expression, Query};
use cursor::Parser;
use lexer::Kind;

pub use outline::QueryOutline;
pub use parsed::{Query as ParsedQuery, parse_query};
pub use template::{TEMPLATE_BYTES_MAX, template};

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
    let most = LanguageLimit::Text.most();
    // Counted in code units, as clients do; a text has at most as many as bytes.
    if text.len() > most && text.encode_utf16().count() > most {
        return Err(SqlError::beyond(LanguageLimit::Text, text));
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
            "SELECT VALUE udf.f(1, c.x) FROM c WHERE (c.x BETWEEN 1 AND 2) AND c.prénom = 0xFF",
            "SELECT c.a FROM c WHERE c.x NOT BETWEEN 1 AND 2 ?? TRUE.a = '\\d\t' -- a comment",
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
            "SELECT * FROM c WHERE c.a BETWEEN 1 AND 2 AND c.b",
            "SELECT * FROM c WHERE c.a AND c.b BETWEEN 1 AND 2",
            "SELECT * FROM c WHERE c.a IS NULL",
            "SELECT * FROM c WHERE c.a /* a comment */ = 1",
            "SELECT * FROM c OFFSET 1.0 LIMIT 1",
            "SELECT * FROM c WHERE c.true",
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
            (
                "SELECT * FROM c WHERE c.a /* never",
                "SC1001",
                "Syntax error, incorrect syntax near '*'.",
                27,
                28,
            ),
            ("SELECT c.a NOT FROM c", "SC1001", "Syntax error, incorrect syntax near 'FROM'.", 15, 19),
            ("SELECT RIGHT.a FROM c", "SC1001", "Syntax error, incorrect syntax near '.'.", 12, 13),
            ("SELECT 1st", "SC1011", "Syntax error, invalid numeric value token '1st'.", 7, 10),
            ("SELECT 1e309", "SC1011", "Syntax error, invalid numeric value token '1e309'.", 7, 12),
            ("SELECT * FROM c WHERE ", "SC1002", "Syntax error, unexpected end-of-file.", 22, 22),
            ("SELECT 1;", "SC1010", "Syntax error, invalid token ';'.", 8, 9),
            ("SELECT 'a", "SC1012", "Syntax error, invalid string literal token ''a'.", 7, 9),
            ("SELECT \"\\\"", "SC1012", "Syntax error, invalid string literal token '\"\\\"'.", 7, 10),
            ("SELECT '\\u12'", "SC1012", "Syntax error, invalid string literal token ''\\u12''.", 7, 13),
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
        // Adjacent opening parentheses are only counted.
        let most = LanguageLimit::Ors.most();
        let chain = format!("SELECT VALUE {}a{}", "(".repeat(20_000), ")".repeat(20_000 - most))
            + &" OR a)".repeat(most);
        let Ok(Query { select, .. }) = parse(&chain) else { panic!("long chains are no deep trees") };
        assert!(
            matches!(select.selection, ast::Selection::Value(Expression::Or(parts)) if parts.len() == most + 1)
        );
    }

    /// The error of a query, by its limit.
    fn limit_of(text: &str) -> Option<LanguageLimit> {
        match parse(text) {
            Ok(_) => None,
            Err(SqlError::Limit { limit, location }) => {
                assert_eq!((location.start, location.end), (0, text.len()));
                Some(limit)
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_the_language_allows_is_accepted_and_no_more() {
        let joins = |count| format!("SELECT * FROM c{}", " JOIN x IN c.a".repeat(count));
        let chain = |operator: &str, count| {
            format!("SELECT * FROM c WHERE c.a = 1{}", format!(" {operator} c.a = 2").repeat(count))
        };
        let mixed = |ands, ors| chain("AND", ands) + &" OR c.b IN (1)".repeat(ors);
        let list = |count| format!("SELECT * FROM c WHERE c.a NOT IN (1{})", ",2".repeat(count - 1));
        for (limit, query) in [
            (LanguageLimit::Joins, &joins as &dyn Fn(usize) -> String),
            (LanguageLimit::Ands, &|count| chain("and", count)),
            (LanguageLimit::Ors, &|count| chain("or", count)),
            (LanguageLimit::Ands, &|count| mixed(count, LanguageLimit::Ors.most())),
            (LanguageLimit::Ors, &|count| mixed(LanguageLimit::Ands.most(), count)),
            (LanguageLimit::ListItems, &list),
        ] {
            assert_eq!(limit_of(&query(limit.most())), None, "{limit:?}");
            assert_eq!(limit_of(&query(limit.most() + 1)), Some(limit));
        }
        // The AND of BETWEEN is not a logical operator.
        let between = " OR (c.a BETWEEN 1 AND 2)".repeat(LanguageLimit::Ors.most());
        assert_eq!(limit_of(&(chain("AND", LanguageLimit::Ands.most()) + &between)), None);
        let comment = |size: usize| format!("SELECT 1 --{}", "x".repeat(size - "SELECT 1 --".len()));
        assert_eq!(limit_of(&comment(LanguageLimit::Text.most())), None);
        assert_eq!(limit_of(&comment(LanguageLimit::Text.most() + 1)), Some(LanguageLimit::Text));
        assert_eq!(limit_of(&comment(LanguageLimit::Text.most()).replace('x', "é")), None);
    }

    #[test]
    fn limits_are_refused_with_the_references_codes_and_words() {
        let joins = format!("SELECT * FROM c{}", " JOIN x IN c.a".repeat(11));
        let error = parse(&joins).expect_err("eleven joins");
        let expected = r#"{"errors":[{"severity":"Error","location":{"start":0,"end":169},"code":"SC3002","message":"The SQL query exceeded the maximum number of joins. The allowed limit is 10."}]}"#;
        assert_eq!(error.to_json(), expected);
        assert_eq!(shardlake_model::Error::from(error).message(), expected);
        let error = parse(&" ".repeat(600_000)).expect_err("a long text");
        assert_eq!(
            error.to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":0,"end":600000},"code":"SC3020","message":"The SQL query text exceeded the maximum limit of 524288 characters."}]}"#
        );
    }

    #[test]
    fn long_conditions_of_what_machines_write_do_not_overflow_the_stack() {
        // Texts of clients that read many items by id and hierarchical key, and of clients that nest to the
        // left.
        let one =
            |n: usize| format!("( c.id = @id{n} AND c.a = @a{n} AND c.b = @b{n} AND c[\"c\"] = @c{n} )");
        let many: Vec<String> = (0..1000).map(one).collect();
        assert_eq!(limit_of(&format!("SELECT * FROM c WHERE ( {} )", many.join(" OR "))), None);
        let nested =
            format!("SELECT * FROM c WHERE {}c.a = 1", "(".repeat(3000)) + &" AND c.a = 2)".repeat(3000);
        assert_eq!(limit_of(&nested), None);
    }
}
