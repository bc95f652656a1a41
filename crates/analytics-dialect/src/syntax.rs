//! From text to a syntax tree: tokens, their bounds, the grammar, and the statements that may run.

use sqlparser::ast::Statement;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::brackets;
use crate::catalog::Settings;
use crate::error::{Checked, of_parser, refuse};
use crate::grammar::{is_word, parser_over, tokenized};
use crate::openrowset;

/// Longest text of a statement.
pub const TEXT_BYTES_MAX: usize = 512 << 10;
/// Most operators and open parentheses around any one part of a statement. Each is a level of the syntax tree, and trees are walked and
/// dropped by recursion.
const LEVELS_MAX: usize = 600;
/// Most parentheses, brackets and braces inside each other.
const GROUPS_MAX: usize = 20;
/// Most parentheses in a row where a table is expected: the parser tries each as a query and as a join.
const TABLE_GROUPS_MAX: usize = 6;
pub(crate) struct Syntax {
    pub statement: Statement,
    /// The text has forms that T-SQL alone has, so it follows T-SQL where other dialects differ.
    pub is_tsql: bool,
}

pub(crate) fn parse(text: &str, settings: &Settings<'_>) -> Checked<Syntax> {
    if text.len() > TEXT_BYTES_MAX {
        return refuse(
            Location { line: 1, column: 1 },
            format!("the statement has {} bytes; at most {TEXT_BYTES_MAX} are allowed", text.len()),
            "pass long lists as a parameter",
        );
    }
    let bracketed = brackets::rewritten(text)?;
    let mut tokens = tokenized(&bracketed.text)?;
    // T-SQL's habit of ;WITH
    let begins =
        tokens.iter().position(|token| !matches!(token.token, Token::Whitespace(_) | Token::SemiColon));
    tokens.drain(..begins.unwrap_or(0));
    within_bounds(&tokens)?;
    may_begin(&tokens)?;
    let mut is_tsql = bracketed.has_names;
    for token in &mut tokens {
        is_tsql |= plain(token)?;
    }
    is_tsql |= openrowset::replaced(&mut tokens, settings)?;
    is_tsql |= has_tsql_words(&tokens);
    let end = tokens.last().map_or(Location { line: 1, column: 1 }, |token| token.span.end);
    let mut parser = parser_over(&tokens);
    let statement = parser.parse_statement().map_err(|error| of_parser(error, end))?;
    while parser.consume_token(&Token::SemiColon) {}
    let next = parser.peek_token();
    if next.token == Token::EOF {
        return Ok(Syntax { statement, is_tsql });
    }
    let is_statement = STATEMENTS.iter().any(|word| next.token.to_string().eq_ignore_ascii_case(word));
    match is_statement {
        true => refuse(next.span.start, "a second statement begins here", "send one statement at a time"),
        false => refuse(next.span.start, format!("'{}' does not belong here", next.token), ""),
    }
}

/// Functions that T-SQL has and DataFusion lacks.
const TSQL_FUNCTIONS: &[&str] = &[
    "CHARINDEX",
    "COUNT_BIG",
    "DATEADD",
    "DATEDIFF",
    "GETDATE",
    "GETUTCDATE",
    "IIF",
    "ISNULL",
    "LEN",
    "OPENJSON",
    "SYSUTCDATETIME",
];

/// TOP behind SELECT, and functions of T-SQL alone.
fn has_tsql_words(tokens: &[TokenWithSpan]) -> bool {
    let solid: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let begins = |token: &TokenWithSpan| {
        [Keyword::SELECT, Keyword::DISTINCT, Keyword::ALL].iter().any(|word| is_word(token, *word))
    };
    solid.windows(2).any(|pair| begins(pair[0]) && is_word(pair[1], Keyword::TOP))
        || solid.windows(2).any(|pair| pair[1].token == Token::LParen && is_tsql_function(pair[0]))
}

fn is_tsql_function(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
        && TSQL_FUNCTIONS.iter().any(|name| word.value.eq_ignore_ascii_case(name)))
}

const STATEMENTS: &[&str] = &[
    "SELECT", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "SHOW", "VALUES", "INSERT", "UPDATE", "DELETE",
    "CREATE", "DROP", "SET", "COPY", "USE", "GO", "DECLARE",
];

/// Refuses by its name a statement that does more than reading, before its grammar matters.
fn may_begin(tokens: &[TokenWithSpan]) -> Checked<()> {
    let start = Location { line: 1, column: 1 };
    let mut words =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::LParen));
    let Some(first) = words.next().filter(|token| token.token != Token::EOF) else {
        return refuse(start, "the statement is empty", "write SELECT … FROM database.container");
    };
    let name = first.token.to_string().to_ascii_uppercase();
    match name.as_str() {
        "SELECT" | "WITH" | "VALUES" | "EXPLAIN" | "DESCRIBE" | "DESC" => Ok(()),
        "SHOW" if words.next().is_some_and(|next| next.token.to_string().eq_ignore_ascii_case("tables")) => {
            Ok(())
        }
        "SHOW" => refuse(
            first.span.start,
            "SHOW knows TABLES alone",
            "write SHOW TABLES, or DESCRIBE and the name of a table",
        ),
        "FROM" => refuse(first.span.start, "a query begins with SELECT", "write SELECT * FROM …"),
        name if name.chars().all(|c| c.is_ascii_alphabetic()) => refuse(
            first.span.start,
            format!(
                "{name} is refused: only SELECT, WITH, EXPLAIN, DESCRIBE and SHOW TABLES run on the analytical store"
            ),
            "items are changed through the NoSQL and MongoDB APIs",
        ),
        name => refuse(
            first.span.start,
            format!("'{name}' begins no statement"),
            "write SELECT … FROM database.container",
        ),
    }
}

/// Bounds the depth of the syntax tree before it exists.
fn within_bounds(tokens: &[TokenWithSpan]) -> Checked<()> {
    // Operators since the last comma, and set operators, of each open group.
    let mut groups = vec![(0_usize, 0_usize)];
    let mut table_groups = 0_usize;
    let mut expects_table = false;
    for token in tokens {
        let at = token.span.start;
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => {
                // An index after an index is a level, too, although the group of each ends.
                if token.token != Token::LParen
                    && let Some(group) = groups.last_mut()
                {
                    group.0 += 1;
                }
                groups.push((1, 0));
                table_groups = if expects_table { table_groups + 1 } else { 0 };
                if groups.len() > GROUPS_MAX || table_groups > TABLE_GROUPS_MAX {
                    return refuse(
                        at,
                        "the parentheses are nested too deeply",
                        "name the inner parts with WITH",
                    );
                }
                continue;
            }
            Token::RParen | Token::RBracket | Token::RBrace if groups.len() > 1 => {
                groups.pop();
            }
            Token::Comma => {
                if let Some(group) = groups.last_mut() {
                    group.0 = 0;
                }
            }
            Token::Word(word) => {
                let group = groups.last_mut();
                match (word.keyword, group) {
                    (Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT, Some(group)) => group.1 += 1,
                    (
                        Keyword::INTERVAL | Keyword::PIVOT | Keyword::UNPIVOT | Keyword::MATCH_RECOGNIZE,
                        Some(group),
                    ) => group.0 += LEVELS_MAX / GROUPS_MAX,
                    (keyword, Some(group)) if word.quote_style.is_none() && is_operator(keyword) => {
                        group.0 += 1
                    }
                    _ => {}
                }
            }
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Period
            | Token::EOF
            | Token::SemiColon => {}
            _ => {
                if let Some(group) = groups.last_mut() {
                    group.0 += 1;
                }
            }
        }
        expects_table = matches!(&token.token, Token::Comma)
            || [Keyword::FROM, Keyword::JOIN, Keyword::APPLY].iter().any(|word| is_word(token, *word));
        table_groups = 0;
        if groups.iter().map(|(operators, sets)| operators + sets).sum::<usize>() > LEVELS_MAX {
            return refuse(
                at,
                format!("more than {LEVELS_MAX} operators follow each other"),
                "use IN (…) or a parameter",
            );
        }
    }
    Ok(())
}

fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::DIV
            | Keyword::CASE
            | Keyword::PRIOR
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::EXPLAIN
            | Keyword::DESCRIBE
            | Keyword::DESC
            | Keyword::JOIN
    )
}

/// Texts and parameters in the form that DataFusion plans. Returns whether the token is T-SQL's.
fn plain(token: &mut TokenWithSpan) -> Checked<bool> {
    let at = token.span.start;
    match &mut token.token {
        Token::NationalStringLiteral(text) => {
            token.token = Token::SingleQuotedString(std::mem::take(text));
            Ok(true)
        }
        Token::Word(word) if word.quote_style.is_none() && word.value.starts_with("@@") => {
            refuse(at, format!("{} is a variable of a SQL Server session", word.value), "")
        }
        Token::Word(word) if word.quote_style.is_none() && word.value.starts_with('@') => {
            token.token = Token::Placeholder(format!("${}", &word.value[1..]));
            Ok(false)
        }
        Token::Placeholder(name) if !name.starts_with('$') => refuse(
            at,
            format!("the parameter '{name}' has no name"),
            "write $name, and pass its value by that name",
        ),
        _ => Ok(false),
    }
}
