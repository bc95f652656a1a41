//! Calls: aggregates, functions with an evaluation of their own, and the function table.

use shardlake_document::Value;

use super::binder::{Aggregates, Binder};
use crate::bound::{Aggregate, Expression, Prepared};
use crate::error::{Rule, SqlError};
use crate::functions::{self, Function};
use crate::syntax::ast::{self, Collection, Source, Span};
use crate::value::aggregate::AggregateFunction;

/// The ways to score items, which only `ORDER BY RANK` may call.
const SCORE: &str = "FULLTEXTSCORE";
const FUSION: &str = "RRF";
const DISTANCE: &str = "VECTORDISTANCE";

impl Binder<'_> {
    /// Only dispatches.
    pub(super) fn call(&mut self, name: &str, arguments: &[ast::Expression], span: Span) -> Expression {
        if let Some(function) = aggregate(name) {
            return self.aggregate(function, name, arguments, span);
        }
        match (plain(name).as_str(), arguments) {
            ("IIF", [condition, then, otherwise]) => self.conditional([condition, then, otherwise]),
            ("IIF", _) => self.argument_count(name, "3", span),
            ("CHOOSE", [number, choices @ ..]) if !choices.is_empty() => self.choose(number, choices),
            ("CHOOSE", _) => self.argument_count(name, "at least 2", span),
            ("DOCUMENTID", [of]) => self.document_id(of),
            ("DOCUMENTID", _) => self.argument_count(name, "1", span),
            (SCORE, [] | [_]) => self.argument_count(name, "at least 2", span),
            (SCORE, _) => self.misplaced_score(arguments, span),
            (FUSION, _) => self.misplaced_fusion(name, arguments, span),
            (DISTANCE, _) if self.search_list_is_out_of_range(arguments) => {
                Expression::Literal(Value::Undefined)
            }
            _ => self.function(name, arguments, span),
        }
    }

    fn choose(&mut self, number: &ast::Expression, choices: &[ast::Expression]) -> Expression {
        let number = Box::new(self.expression(number));
        let choices = self.all(choices);
        self.fold(Expression::Choose { number, choices })
    }

    fn document_id(&mut self, of: &ast::Expression) -> Expression {
        Expression::DocumentId(Box::new(self.expression(of)))
    }

    fn misplaced_score(&mut self, arguments: &[ast::Expression], span: Span) -> Expression {
        self.all(arguments);
        self.fail_at(Rule::ScoreOutsideRank, span)
    }

    fn misplaced_fusion(&mut self, name: &str, arguments: &[ast::Expression], span: Span) -> Expression {
        self.all(arguments);
        self.unknown(name, span)
    }

    /// Arguments come first: so do the reference's errors about them.
    fn function(&mut self, name: &str, arguments: &[ast::Expression], span: Span) -> Expression {
        let arguments = self.all(arguments);
        // A place is looked for only when it is needed: that takes as long as the text is.
        let found = functions::find(name, arguments.len(), || self.location(span));
        let function = match found {
            Ok(function) => function,
            Err(SqlError::UnknownFunction { .. }) => return self.unknown(name, span),
            Err(error) => return self.fail(error),
        };
        if !self.is_own && matches!(function, Function::SortKey | Function::SortKeyOfId) {
            return self.unknown(name, span);
        }
        if function == Function::DateTimeAdd && arguments.len() == 2 {
            return self.fail_at(Rule::InvalidTimespan, span);
        }
        let constants: Vec<Option<&Value>> = arguments.iter().map(constant).collect();
        let prepared = functions::prepare(function, &constants);
        self.fold(Expression::Call { function, arguments, prepared: Prepared(prepared) })
    }

    /// Notes the mistake.
    fn search_list_is_out_of_range(&mut self, arguments: &[ast::Expression]) -> bool {
        let Some(ast::Expression::Object { members, span }) = arguments.get(3) else { return false };
        let multiplier = members.iter().find(|(name, _)| name == "searchListSizeMultiplier");
        let Some((_, ast::Expression::Literal(value))) = multiplier else { return false };
        let is_out_of_range =
            value.as_number().is_some_and(|number| !(1.0..=100.0).contains(&number.as_f64()));
        if is_out_of_range {
            let value = value.to_json().unwrap_or_default();
            self.fail_at(Rule::SearchListSizeMultiplier { value }, *span);
        }
        is_out_of_range
    }

    fn aggregate(
        &mut self,
        function: AggregateFunction,
        name: &str,
        arguments: &[ast::Expression],
        span: Span,
    ) -> Expression {
        let [argument] = arguments else { return self.argument_count(name, "1", span) };
        match std::mem::take(&mut self.aggregates) {
            // Where no row's values may be gathered, an aggregate is part of another expression at best.
            Aggregates::Forbidden => {
                self.composes_aggregates = true;
                Expression::Literal(Value::Undefined)
            }
            // The mistake is the outer one's.
            Aggregates::Within { list, .. } => {
                self.aggregates = Aggregates::Within { list, nests: true };
                Expression::Literal(Value::Undefined)
            }
            Aggregates::Collected(list) => {
                self.aggregates = Aggregates::Within { list, nests: false };
                let argument = self.expression(argument);
                let Aggregates::Within { mut list, nests } = std::mem::take(&mut self.aggregates) else {
                    unreachable!("subqueries restore what was around them")
                };
                if nests {
                    self.aggregates = Aggregates::Collected(list);
                    return self.fail_at(Rule::NestedAggregate, span);
                }
                let aggregate = Aggregate { function, argument };
                let place = list.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
                    list.push(aggregate);
                    list.len() - 1
                });
                self.aggregates = Aggregates::Collected(list);
                Expression::Aggregate(place)
            }
        }
    }

    fn argument_count(&mut self, name: &str, expected: &str, span: Span) -> Expression {
        let location = self.location(span);
        let (name, expected) = (name.to_string(), expected.to_string());
        self.fail(SqlError::ArgumentCount { name, expected, location })
    }

    /// The place is the name alone.
    fn unknown(&mut self, name: &str, span: Span) -> Expression {
        let location = self.location(Span { start: span.start, end: span.start + name.len() });
        self.fail(SqlError::UnknownFunction { name: name.to_string(), location })
    }

    /// `ORDER BY RANK`: its own rules come first, then the refusal.
    pub(super) fn rank(&mut self, call: &ast::Expression, clause: Span, query: &ast::Query) {
        let ast::Expression::Call { name, arguments, .. } = call else {
            unreachable!("the grammar has a call here")
        };
        let scores = match plain(name).as_str() {
            FUSION => &arguments[..],
            _ => std::slice::from_ref(call),
        };
        let weights = scores.last().filter(|last| scores.len() > 1 && !is_score(last));
        let scores = &scores[..scores.len() - usize::from(weights.is_some())];
        let is_fusion = plain(name) == FUSION;
        if scores.is_empty() || !scores.iter().all(is_score) || (is_fusion && scores.len() < 2) {
            self.fail_at(Rule::RankFunction, clause);
        } else if weights.is_some_and(|weights| !are_weights(weights, scores.len())) {
            self.fail_at(Rule::RankWeights, clause);
        }
        if let Some((rule, span)) = query.from.as_ref().and_then(|from| source_with_rank(from, query.span)) {
            self.fail_at(rule, span);
        }
        self.fail(SqlError::unsupported("ORDER BY RANK"));
    }
}

/// As the function table compares names.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_uppercase()
}

/// Names ignore case and underscores, as those of all functions.
/// Names of aggregates, as they are called.
pub(crate) const AGGREGATES: [&str; 8] =
    ["AVG", "COUNT", "COUNTIF", "MAKELIST", "MAKESET", "MAX", "MIN", "SUM"];

pub(crate) fn aggregate(name: &str) -> Option<AggregateFunction> {
    Some(match plain(name).as_str() {
        "AVG" => AggregateFunction::Average,
        "COUNT" => AggregateFunction::Count,
        "COUNTIF" => AggregateFunction::CountIf,
        "MAKELIST" => AggregateFunction::MakeList,
        "MAKESET" => AggregateFunction::MakeSet,
        "MAX" => AggregateFunction::Max,
        "MIN" => AggregateFunction::Min,
        "SUM" => AggregateFunction::Sum,
        _ => return None,
    })
}

pub(super) fn constant(expression: &Expression) -> Option<&Value> {
    match expression {
        Expression::Literal(value) => Some(value),
        _ => None,
    }
}

fn is_score(expression: &ast::Expression) -> bool {
    matches!(expression, ast::Expression::Call { name, .. } if [SCORE, DISTANCE].contains(&plain(name).as_str()))
}

fn are_weights(expression: &ast::Expression, count: usize) -> bool {
    let is_number = |weight: &ast::Expression| match weight {
        ast::Expression::Literal(value) => value.as_number().is_some(),
        _ => false,
    };
    matches!(expression, ast::Expression::Array(weights) if weights.len() == count && weights.iter().all(is_number))
}

fn source_with_rank(from: &Collection, span: Span) -> Option<(Rule, Span)> {
    let rule = match from {
        Collection::Join { .. } => Rule::JoinWithRank,
        Collection::Iterate { .. } => Rule::InWithRank,
        Collection::Aliased { source: Source::Subquery(_), .. } => Rule::SubqueryWithRank,
        Collection::Aliased { .. } => return None,
    };
    Some((rule, span))
}
