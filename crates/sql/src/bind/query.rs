//! The clauses of one query, which may be a subquery.

use shardlake_document::{Number, Value};

use super::binder::{Aggregates, Binder, Level};
use crate::bound::{BoundQuery, BoundSource, Expression, Prepared, Projection, Slot, SortKey};
use crate::error::Rule;
use crate::syntax::ast::{self, CountValue, OrderBy, SubqueryKind, UnaryOperator};

/// `TOP`, `OFFSET` and `LIMIT` stay below this.
pub(super) const COUNT_LIMIT: u64 = 1 << 32;

impl Binder<'_> {
    pub(super) fn query(&mut self, query: &ast::Query, level: Level) -> BoundQuery {
        let names_outside = self.names.len();
        let aggregates_outside = std::mem::take(&mut self.aggregates);
        let read_items_outside = self.reads_items;

        if query.select.top.is_some() && query.offset_limit.is_some() {
            self.fail_at(Rule::TopWithOffset, query.span);
        }
        let from = self.from(query.from.as_ref(), level != Level::Inner);
        let filter = query.filter.as_ref().map(|filter| self.expression(filter));
        let keys = self.group_keys(&query.group_by);
        self.aggregates = Aggregates::Collected(Vec::new());
        let mut order_by = self.order_by(query.order_by.as_ref(), query, level);
        let mut projection = self.projection(query, &from, &keys);
        let Aggregates::Collected(aggregates) = std::mem::take(&mut self.aggregates) else {
            unreachable!("every aggregate restores what was around it")
        };
        let reads_items = self.reads_items && !read_items_outside;
        if reads_items {
            self.check_composition(&projection);
        }
        let rows: Vec<Slot> = from.sources.iter().map(BoundSource::slot).collect();
        let grouping = self.grouping(keys, aggregates, &mut projection, &mut order_by, &rows, query);
        let mut bound = BoundQuery {
            sources: from.sources,
            filter,
            plain_filter: Prepared::NONE,
            early: Vec::new(),
            grouping,
            order_by,
            order_refusal: None,
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
            order_refusal: None,
            projection: Projection::All(0),
            distinct: false,
            offset: 0,
            limit: None,
        }
    }

    /// A subquery in an expression.
    pub(super) fn subquery(&mut self, kind: SubqueryKind, query: &ast::Query) -> Expression {
        let span = query.span;
        let mut query = self.query(query, Level::Inner);
        if kind == SubqueryKind::Scalar && may_have_rows(&query) {
            self.fail_at(Rule::ScalarSubqueryWithRows, span);
        }
        if kind == SubqueryKind::All {
            // ALL: no row may fail the condition.
            let filter = query.filter.take().unwrap_or(Expression::Literal(Value::Bool(true)));
            let negated = Expression::Unary { operator: UnaryOperator::Not, operand: Box::new(filter) };
            query.filter = Some(self.fold(negated));
        }
        Expression::Subquery { kind, query: Box::new(query) }
    }

    fn order_by(&mut self, order_by: Option<&OrderBy>, query: &ast::Query, level: Level) -> Vec<SortKey> {
        match order_by {
            Some(OrderBy::Keys { keys, span }) => {
                if level != Level::Outermost {
                    self.fail_at(Rule::OrderByInSubquery, *span);
                }
                let key = |key: &ast::OrderKey| SortKey {
                    expression: self.expression(&key.expression),
                    descending: key.direction == Some(ast::Direction::Descending),
                    computed: None,
                };
                keys.iter().map(key).collect()
            }
            Some(OrderBy::Rank { call, span, .. }) if level == Level::Outermost => {
                self.rank(call, *span, query);
                Vec::new()
            }
            Some(OrderBy::Rank { span, .. }) => {
                self.fail_at(Rule::RankInSubquery, *span);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Clauses that only the outermost query may have, in the reference's order.
    fn refuse_outer_clauses(&mut self, query: &ast::Query) {
        if query.select.top.is_some() {
            self.fail_at(Rule::TopInSubquery, query.select.top_span);
        }
        if let Some(clause) = &query.offset_limit {
            self.fail_at(Rule::OffsetLimitInSubquery, clause.span);
        }
    }

    fn limits(&mut self, query: &ast::Query, bound: &mut BoundQuery) {
        if let Some(top) = &query.select.top {
            bound.limit = self.count(top, Rule::InvalidTop);
        }
        if let Some(clause) = &query.offset_limit {
            bound.offset = self.count(&clause.offset, Rule::InvalidOffset).unwrap_or(0);
            bound.limit = self.count(&clause.limit, Rule::InvalidLimit);
        }
    }

    /// None after a mistake.
    fn count(&mut self, count: &ast::Count, rule: Rule) -> Option<u64> {
        let value = match &count.value {
            CountValue::Number(value) => value.clone(),
            CountValue::Parameter(_) if !self.knows_parameters => return None,
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
        let number = number.filter(|number| *number < COUNT_LIMIT);
        if number.is_none() {
            self.fail_at(rule, count.span);
        }
        number
    }
}

/// Whether the query can have several rows for one item.
fn may_have_rows(query: &BoundQuery) -> bool {
    if let Some(grouping) = &query.grouping {
        return !grouping.keys.is_empty();
    }
    query.sources.iter().any(|source| match source {
        BoundSource::Item | BoundSource::Value { .. } => false,
        BoundSource::Elements { .. } => true,
        BoundSource::Subquery { query, iterates, .. } => *iterates || may_have_rows(query),
    })
}
