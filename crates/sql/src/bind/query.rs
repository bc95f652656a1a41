//! The clauses of one query, which may be a subquery.

use shardlake_document::{Number, Value};

use super::{Aggregates, Binder};
use crate::bound::{BoundQuery, Projection, SortKey};
use crate::error::{Rule, SqlError};
use crate::expression::{Expression, Prepared, UnaryOperator};
use crate::syntax::ast::{self, CountValue, OrderBy, SubqueryKind};

/// `TOP`, `OFFSET` and `LIMIT` stay below this.
const COUNT_LIMIT: u64 = 1 << 32;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Its first source may name the container.
    Outermost,
    /// The first source of a query whose first source may name the container; it may name it instead.
    FirstSource,
    /// It sees the variables around it only.
    Inner,
}

impl Binder<'_> {
    pub(super) fn query(&mut self, query: &ast::Query, level: Level) -> BoundQuery {
        let names_outside = self.names.len();
        let aggregates_outside = std::mem::take(&mut self.aggregates);
        let read_items_outside = self.reads_items;

        let from = self.from(query.from.as_ref(), level != Level::Inner);
        let filter = query.filter.as_ref().map(|filter| self.expression(filter));
        let keys: Vec<Expression> = query.group_by.iter().map(|key| self.expression(key)).collect();
        self.aggregates = Aggregates::Collected(Vec::new());
        let mut projection = self.projection(query, &from.slots);
        let Aggregates::Collected(aggregates) = std::mem::take(&mut self.aggregates) else {
            unreachable!("every aggregate restores what was around it")
        };
        let order_by = self.order_by(query.order_by.as_ref(), query, level);
        let reads_items = self.reads_items && !read_items_outside;
        if reads_items {
            self.check_composition(&projection);
        }
        let grouping = self.grouping(keys, aggregates, &mut projection, &from.sources, query);
        let mut bound = BoundQuery {
            sources: from.sources,
            filter,
            plain_filter: Prepared::NONE,
            early: Vec::new(),
            grouping,
            order_by,
            projection,
            distinct: query.select.distinct,
            offset: 0,
            limit: None,
        };
        if level == Level::Outermost {
            self.limits(query, &mut bound);
        } else {
            self.refuse_outer_clauses(query);
        }
        self.names.truncate(names_outside);
        self.aggregates = aggregates_outside;
        bound
    }

    /// `FROM … WHERE condition` as a query of whole items.
    pub(super) fn condition(&mut self, from: &ast::Collection, condition: &ast::Expression) -> BoundQuery {
        let from = self.from(Some(from), true);
        let filter = Some(self.expression(condition));
        BoundQuery {
            sources: from.sources,
            filter,
            plain_filter: Prepared::NONE,
            early: Vec::new(),
            grouping: None,
            order_by: Vec::new(),
            projection: Projection::All(0),
            distinct: false,
            offset: 0,
            limit: None,
        }
    }

    /// A subquery in an expression.
    pub(super) fn subquery(&mut self, kind: SubqueryKind, query: &ast::Query) -> Expression {
        let mut query = self.query(query, Level::Inner);
        if kind == SubqueryKind::All {
            // No row may break the condition.
            let filter = query.filter.take().unwrap_or(Expression::Literal(Value::Bool(true)));
            let negated = Expression::Unary { operator: UnaryOperator::Not, operand: Box::new(filter) };
            query.filter = Some(self.fold(negated));
        }
        Expression::Subquery { kind, query: Box::new(query) }
    }

    fn order_by(&mut self, order_by: Option<&OrderBy>, query: &ast::Query, level: Level) -> Vec<SortKey> {
        match order_by {
            Some(OrderBy::Keys { keys, .. }) => {
                let mut bound = Vec::with_capacity(keys.len());
                for key in keys {
                    bound.push(SortKey {
                        expression: self.expression(&key.expression),
                        descending: key.direction == Some(ast::Direction::Descending),
                        computed: None,
                    });
                }
                if !query.group_by.is_empty() {
                    self.fail(SqlError::unsupported("ORDER BY together with GROUP BY"));
                }
                bound
            }
            Some(OrderBy::Rank { call, span, .. }) if level == Level::Outermost => {
                self.rank(call, *span, query);
                Vec::new()
            }
            Some(OrderBy::Rank { .. }) | None => Vec::new(),
        }
    }

    /// What only the outermost query may have, in the reference's order.
    fn refuse_outer_clauses(&mut self, query: &ast::Query) {
        match &query.order_by {
            Some(OrderBy::Keys { span, .. }) => {
                self.fail_at(Rule::OrderByInSubquery, *span);
            }
            Some(OrderBy::Rank { span, .. }) => {
                self.fail_at(Rule::RankInSubquery, *span);
            }
            None => {}
        }
        if query.select.top.is_some() {
            self.fail_at(Rule::TopInSubquery, query.select.top_span);
        }
        if let Some(clause) = &query.offset_limit {
            self.fail_at(Rule::OffsetLimitInSubquery, clause.span);
        }
    }

    fn limits(&mut self, query: &ast::Query, bound: &mut BoundQuery) {
        if let Some(top) = &query.select.top {
            bound.limit = self.count(top, Rule::TopTooLarge, Rule::TopNotInteger);
        }
        if let Some(clause) = &query.offset_limit {
            let not_integer = |clause| Rule::CountNotInteger { clause };
            bound.offset =
                self.count(&clause.offset, Rule::OffsetTooLarge, not_integer("OFFSET")).unwrap_or(0);
            let limit = self.count(&clause.limit, Rule::LimitTooLarge, not_integer("LIMIT"));
            bound.limit = match (bound.limit, limit) {
                (Some(top), Some(limit)) => Some(top.min(limit)),
                (top, limit) => top.or(limit),
            };
        }
    }

    /// None after a mistake.
    fn count(&mut self, count: &ast::Count, too_large: Rule, not_integer: Rule) -> Option<u64> {
        let value = match &count.value {
            CountValue::Number(value) => value.clone(),
            CountValue::Parameter(name) => match self.parameter(name) {
                Expression::Literal(value) => value,
                _ => Value::Undefined,
            },
        };
        let number = match value.as_number() {
            Some(Number::Int(number)) => u64::try_from(number).ok(),
            // The conversion saturates, far above the limit.
            Some(Number::Double(number)) if number >= 0.0 && number.trunc() == number => Some(number as u64),
            _ => None,
        };
        match number {
            Some(number) if number < COUNT_LIMIT => return Some(number),
            Some(_) => self.fail_at(too_large, count.span),
            None => self.fail_at(not_integer, count.span),
        };
        None
    }
}
