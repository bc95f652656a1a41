//! Parts of the language that a definition may not use: each is refused by its name, with its place.

use shardlake_document::is_system_property;

use super::types::{DeriveError, Dialect, OUTPUTS_MAX, RESERVED_IN_GROUPS};
use super::walk::each_expression;
use crate::bind::member_names;
use crate::error::Location;
use crate::syntax::ast::{Collection, Expression, OrderBy, Query, Selection, Source, Span};
use crate::syntax::lexer::{Kind, Lexer, Token};

type Checked = Result<(), DeriveError>;

/// Aggregates of groups.
const AGGREGATES: [&str; 6] = ["COUNT", "COUNTIF", "SUM", "AVG", "MIN", "MAX"];
const OTHER_AGGREGATES: [&str; 3] = ["COUNTDISTINCT", "MAKELIST", "MAKESET"];
/// Functions with another value for the same item at another time.
const CHANGING: [&str; 2] = ["RAND", "DOCUMENTID"];

/// The text of the definition, for places.
struct Text<'t>(&'t str);

pub(super) fn check(text: &str, query: &Query, dialect: Dialect) -> Checked {
    let text = Text(text);
    text.selection(query)?;
    text.sources(query)?;
    if dialect == Dialect::Strict {
        text.strict(query)?;
    }
    text.clauses(query)?;
    text.expressions(query)?;
    text.groups(query)?;
    text.outputs(query)
}

/// For a constant that was made of the time in a way that has no name here.
pub(super) fn depends_on_time() -> DeriveError {
    DeriveError {
        message: "a value depends on the time: rows follow from their item alone".into(),
        place: None,
        is_not_yet: false,
    }
}

impl Text<'_> {
    fn refuse(&self, span: Span, message: impl Into<String>) -> Checked {
        let place = Some(Location::in_text(self.0, span.start, span.end));
        Err(DeriveError { message: message.into(), place, is_not_yet: false })
    }

    /// For a part that has no place in the tree: the first token outside of brackets that `is_it`.
    fn refuse_at(&self, is_it: impl Fn(&str, Token) -> bool, message: impl Into<String>) -> Checked {
        let span = self.find(is_it).unwrap_or(Span { start: 0, end: self.0.len() });
        self.refuse(span, message)
    }

    fn refuse_word(&self, word: &str, message: impl Into<String>) -> Checked {
        self.refuse_at(|text, token| token.kind == Kind::Word && text.eq_ignore_ascii_case(word), message)
    }

    fn find(&self, is_it: impl Fn(&str, Token) -> bool) -> Option<Span> {
        let (mut lexer, mut depth) = (Lexer::new(self.0), 0_usize);
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::End => return None,
                Kind::Symbol("(" | "[" | "{") => depth += 1,
                Kind::Symbol(")" | "]" | "}") => depth = depth.saturating_sub(1),
                _ if (depth == 0 || token.kind == Kind::Parameter) && is_it(lexer.text_of(token), token) => {
                    return Some(Span { start: token.start, end: token.end });
                }
                _ => {}
            }
        }
    }

    /// Rows are objects.
    fn selection(&self, query: &Query) -> Checked {
        match &query.select.selection {
            Selection::Value(value) if !matches!(value, Expression::Object { .. }) => {
                self.refuse(query.select.span, "rows are objects: use SELECT VALUE { … } or name the outputs")
            }
            Selection::Value(_) | Selection::All | Selection::Items(_) => Ok(()),
        }
    }

    /// `FROM name` and joins of arrays.
    fn sources(&self, query: &Query) -> Checked {
        let Some(from) = &query.from else {
            return self.refuse(query.span, "there is no FROM: rows come from the items of the source");
        };
        let mut parts = Vec::new();
        in_order(from, &mut parts);
        for (index, part) in parts.into_iter().enumerate() {
            match part {
                Collection::Aliased { source: Source::Path { path, .. }, .. }
                    if index == 0 && path.is_empty() => {}
                Collection::Aliased { source: Source::Path { root, .. }, .. }
                | Collection::Iterate { source: Source::Path { root, .. }, .. }
                    if index == 0 =>
                {
                    self.refuse(
                        root.span,
                        "FROM with a path: use FROM c, and JOIN x IN c.path for the elements of an array",
                    )?;
                }
                Collection::Iterate { source: Source::Path { .. }, .. } => {}
                Collection::Aliased { source: Source::Path { root, .. }, .. } => {
                    self.refuse(root.span, "JOIN without IN: use JOIN x IN c.path")?;
                }
                Collection::Aliased { source: Source::Subquery(query), .. }
                | Collection::Iterate { source: Source::Subquery(query), .. } => {
                    self.refuse(query.span, "a subquery in FROM or JOIN: use JOIN x IN c.path")?;
                }
                Collection::Join { .. } => unreachable!("joins are taken apart"),
            }
        }
        Ok(())
    }

    /// The reference documents properties of one level, or `*`, and nothing else.
    fn strict(&self, query: &Query) -> Checked {
        const HINT: &str = "the strict dialect has SELECT of properties, or of *, FROM a name, and nothing else (start the server without --strict-gsi for more)";
        match &query.select.selection {
            Selection::Value(_) => self.refuse(query.select.span, format!("SELECT VALUE: {HINT}"))?,
            Selection::Items(items) => {
                for item in items {
                    let is_plain = matches!(&item.expression, Expression::Property { of, .. }
                        if matches!(**of, Expression::Identifier(_)));
                    if item.alias.is_some() {
                        self.refuse(item.name_span, format!("AS: {HINT}"))?;
                    }
                    if !is_plain {
                        let span = match &item.expression {
                            Expression::Call { span, .. } | Expression::UserDefined { span, .. } => *span,
                            _ => item.name_span,
                        };
                        self.refuse(span, format!("an output that is no property of the item: {HINT}"))?;
                    }
                }
            }
            Selection::All => {}
        }
        if matches!(&query.from, Some(Collection::Join { .. })) {
            self.refuse_word("JOIN", format!("JOIN: {HINT}"))?;
        }
        if query.filter.is_some() {
            self.refuse_word("WHERE", format!("WHERE: {HINT}"))?;
        }
        match query.group_by.first() {
            Some(_) => self.refuse_word("GROUP", format!("GROUP BY: {HINT}")),
            None => Ok(()),
        }
    }

    /// Clauses over several rows.
    fn clauses(&self, query: &Query) -> Checked {
        const REASON: &str = "an index has the rows of each item, in no order: leave it out";
        if query.select.distinct {
            self.refuse_word("DISTINCT", format!("DISTINCT: {REASON}"))?;
        }
        if query.select.top.is_some() {
            self.refuse(query.select.top_span, format!("TOP: {REASON}"))?;
        }
        match &query.order_by {
            Some(OrderBy::Keys { span, .. } | OrderBy::Rank { span, .. }) => {
                self.refuse(*span, format!("ORDER BY: {REASON}"))?;
            }
            None => {}
        }
        match &query.offset_limit {
            Some(clause) => self.refuse(clause.span, format!("OFFSET LIMIT: {REASON}")),
            None => Ok(()),
        }
    }

    /// Values that do not follow from the item alone.
    fn expressions(&self, query: &Query) -> Checked {
        each_expression(query, false, &mut |expression, _| match expression {
            Expression::Parameter(name) => self.refuse_at(
                |text, token| token.kind == Kind::Parameter && text == name,
                format!("the parameter {name}: write its value"),
            ),
            Expression::UserDefined { name, span, .. } => {
                self.refuse(*span, format!("the user-defined function '{name}': use built-in functions"))
            }
            Expression::Call { name, span, .. } if is_changing(name) => self.refuse(
                *span,
                format!("the function {}: rows follow from their item alone", name.to_ascii_uppercase()),
            ),
            _ => Ok(()),
        })
    }

    /// A grouping without aggregates is refused: clients take it for one row an item.
    fn groups(&self, query: &Query) -> Checked {
        let mut aggregate = None;
        each_expression(query, false, &mut |expression, is_inner| match expression {
            Expression::Call { name, span, .. } if !is_inner && is_other_aggregate(name) => self.refuse(
                *span,
                format!("the aggregate {}: use one of {}", name.to_ascii_uppercase(), AGGREGATES.join(", ")),
            ),
            Expression::Call { name, span, .. } if !is_inner && is_aggregate(name) => {
                aggregate.get_or_insert(*span);
                Ok(())
            }
            _ => Ok(()),
        })?;
        match (query.group_by.first(), aggregate) {
            (None, None) => Ok(()),
            (None, Some(span)) => {
                self.refuse(span, "an aggregate without GROUP BY: name the keys of its groups, and add up their values in queries")
            }
            (Some(_), None) => {
                self.refuse_word("GROUP", "GROUP BY without an aggregate: add one, or leave the clause out")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }

    fn outputs(&self, query: &Query) -> Checked {
        let (names, spans) = match &query.select.selection {
            Selection::All => return Ok(()),
            Selection::Items(items) => {
                let spans = items.iter().map(|item| item.name_span).collect();
                (member_names(items), spans)
            }
            Selection::Value(Expression::Object { members, span }) => {
                let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
                let spans = vec![*span; names.len()];
                (names, spans)
            }
            Selection::Value(_) => unreachable!("only objects are rows"),
        };
        if names.len() > OUTPUTS_MAX {
            return self.refuse(
                query.select.span,
                format!("there are {} outputs: use at most {OUTPUTS_MAX}", names.len()),
            );
        }
        let spans: Vec<Span> = spans;
        let is_grouped = !query.group_by.is_empty();
        let is_servers =
            |name: &str| is_system_property(name) || is_grouped && RESERVED_IN_GROUPS.contains(&name);
        match names.iter().zip(spans).find(|(name, _)| is_servers(name)) {
            Some((name, span)) => self.refuse(
                span,
                format!("the output '{name}' would hide a property that the server owns: give it another name with AS"),
            ),
            None => Ok(()),
        }
    }
}

fn in_order<'c>(collection: &'c Collection, parts: &mut Vec<&'c Collection>) {
    match collection {
        Collection::Join { left, right } => {
            in_order(left, parts);
            in_order(right, parts);
        }
        part => parts.push(part),
    }
}

/// Names of functions are compared without case and underscores, as binding does.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_uppercase()
}

fn is_changing(name: &str) -> bool {
    let plain = plain(name);
    plain.starts_with("GETCURRENT") || ["NOW", "AGO"].contains(&&*plain) || CHANGING.contains(&&*plain)
}

fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&&*plain(name))
}

fn is_other_aggregate(name: &str) -> bool {
    OTHER_AGGREGATES.contains(&&*plain(name))
}
