//! Expressions: every kind of node, its names and parameters resolved.

use std::sync::Arc;

use shardlake_document::Value;

use super::binder::Binder;
use super::select::unique;
use super::user_defined;
use crate::bound::{Expression, Prepared};
use crate::error::Rule;
use crate::syntax::ast::{self, BinaryOperator, Identifier, Span, UnaryOperator};
use crate::value::constant_set::ConstantSet;
use crate::value::like::Pattern;

impl Binder<'_> {
    /// Only dispatches, because every level of the tree costs one stack frame of this function.
    pub(super) fn expression(&mut self, expression: &ast::Expression) -> Expression {
        match &self.references {
            None => self.node(expression),
            Some(_) => self.noting_references(expression),
        }
    }

    pub(super) fn node(&mut self, expression: &ast::Expression) -> Expression {
        use ast::Expression as Tree;
        match expression {
            Tree::Literal(value) => literal(value),
            Tree::Parameter(name) => self.parameter(name),
            Tree::Identifier(identifier) => self.identifier(identifier),
            Tree::Subquery { kind, query } => self.subquery(*kind, query),
            Tree::Index { of, key, span } => self.index(of, key, *span),
            Tree::Call { name, arguments, span } => self.call(name, arguments, *span),
            Tree::Let { name, value, body } => self.let_in(name, value, body),
            Tree::UserDefined { name, arguments, .. } => user_defined::call(self, name, arguments),
            Tree::Like { value, pattern, escape, negated } => {
                self.like(value, pattern, escape.as_ref(), *negated)
            }
            Tree::Property { of, name, .. } => self.property(of, name),
            Tree::Unary { operator, operand } => self.unary(*operator, operand),
            Tree::Binary { operator, left, right } => self.binary(*operator, left, right),
            Tree::And(parts) => self.list(parts, Expression::And),
            Tree::Or(parts) => self.list(parts, Expression::Or),
            Tree::Coalesce(parts) => self.list(parts, Expression::Coalesce),
            Tree::Concatenate(parts) => self.list(parts, Expression::Concatenate),
            Tree::Array(elements) => self.list(elements, Expression::Array),
            Tree::Object { members, .. } => self.object(members),
            Tree::Conditional { condition, then, otherwise } => {
                self.conditional([condition, then, otherwise])
            }
            Tree::In { value, list, negated } => self.membership(value, list, *negated),
            Tree::Between { value, low, high, negated } => self.between([value, low, high], *negated),
        }
    }

    fn property(&mut self, of: &ast::Expression, name: &str) -> Expression {
        let property = Expression::Property { of: self.boxed(of), name: name.to_string() };
        self.fold(property)
    }

    fn unary(&mut self, operator: UnaryOperator, operand: &ast::Expression) -> Expression {
        let unary = Expression::Unary { operator, operand: self.boxed(operand) };
        self.fold(unary)
    }

    fn binary(
        &mut self,
        operator: BinaryOperator,
        left: &ast::Expression,
        right: &ast::Expression,
    ) -> Expression {
        let (left, right) = (self.boxed(left), self.boxed(right));
        self.fold(Expression::Binary { operator, left, right })
    }

    fn list(&mut self, parts: &[ast::Expression], build: fn(Vec<Expression>) -> Expression) -> Expression {
        let parts = self.all(parts);
        self.fold(build(parts))
    }

    pub(super) fn all(&mut self, parts: &[ast::Expression]) -> Vec<Expression> {
        parts.iter().map(|part| self.expression(part)).collect()
    }

    fn boxed(&mut self, expression: &ast::Expression) -> Box<Expression> {
        Box::new(self.expression(expression))
    }

    pub(super) fn parameter(&mut self, name: &str) -> Expression {
        match self.parameters.get(name) {
            Some(value) => Expression::Literal((*value).clone()),
            None => Expression::Literal(Value::Undefined),
        }
    }

    fn identifier(&mut self, identifier: &Identifier) -> Expression {
        match (self.variable(&identifier.name), identifier.name.as_str()) {
            (Some(slot), _) => Expression::Variable(slot),
            (None, "NaN") => Expression::Literal(Value::Double(f64::NAN)),
            (None, "Infinity") => Expression::Literal(Value::Double(f64::INFINITY)),
            (None, _) => self.unresolved(identifier),
        }
    }

    /// Keys are numbers, texts and parameters; a parameter that holds a name works like a property name.
    fn index(&mut self, of: &ast::Expression, key: &ast::Expression, span: Span) -> Expression {
        let is_number = |value: &Value| value.as_number().is_some();
        let is_key = match key {
            ast::Expression::Parameter(_) => true,
            ast::Expression::Literal(value) => is_number(value),
            _ => false,
        };
        if !is_key && self.folds {
            return self.fail_at(Rule::UnsupportedFeature { feature: "member indexer".into() }, span);
        }
        let (of, key) = (self.boxed(of), self.expression(key));
        self.fold(match key {
            Expression::Literal(Value::String(name)) => Expression::Property { of, name },
            key => Expression::Index { of, key: Box::new(key) },
        })
    }

    fn object(&mut self, members: &[(String, ast::Expression)]) -> Expression {
        let members = members.iter().map(|(name, value)| (name.clone(), self.expression(value))).collect();
        self.fold(Expression::Object(unique(members)))
    }

    pub(super) fn conditional(&mut self, parts: [&ast::Expression; 3]) -> Expression {
        let [condition, then, otherwise] = parts.map(|part| self.boxed(part));
        self.fold(Expression::Conditional { condition, then, otherwise })
    }

    fn membership(&mut self, value: &ast::Expression, list: &[ast::Expression], negated: bool) -> Expression {
        let (value, list) = (self.boxed(value), self.all(list));
        let prepared = Prepared(constant_set(&list).map(Arc::new));
        self.negated(Expression::In { value, list, prepared }, negated)
    }

    fn between(&mut self, parts: [&ast::Expression; 3], negated: bool) -> Expression {
        let [value, low, high] = parts.map(|part| self.boxed(part));
        self.negated(Expression::Between { value, low, high }, negated)
    }

    fn like(
        &mut self,
        value: &ast::Expression,
        pattern: &ast::Expression,
        escape: Option<&ast::Escape>,
        negated: bool,
    ) -> Expression {
        let (value, pattern) = (self.boxed(value), self.boxed(pattern));
        let mut characters = escape.iter().flat_map(|escape| escape.text.chars());
        let (character, more) = (characters.next(), characters.next());
        if let Some(escape) = escape
            && (character.is_none() || more.is_some())
        {
            return self.fail_at(Rule::InvalidEscape { text: escape.text.clone() }, escape.span);
        }
        let escape = character;
        let prepared = match &*pattern {
            Expression::Literal(Value::String(pattern)) => Some(Arc::new(Pattern::new(pattern, escape))),
            _ => None,
        };
        self.negated(Expression::Like { value, pattern, escape, prepared: Prepared(prepared) }, negated)
    }

    fn negated(&mut self, condition: Expression, negated: bool) -> Expression {
        let condition = self.fold(condition);
        if !negated {
            return condition;
        }
        self.fold(Expression::Unary { operator: UnaryOperator::Not, operand: Box::new(condition) })
    }

    fn let_in(&mut self, name: &Identifier, value: &ast::Expression, body: &ast::Expression) -> Expression {
        let value = self.boxed(value);
        let slot = self.new_slot();
        self.names.push((name.name.clone(), slot));
        let body = self.boxed(body);
        self.names.pop();
        Expression::Let { slot, value, body }
    }
}

fn literal(value: &Value) -> Expression {
    Expression::Literal(value.clone())
}

/// The set of a list, if all of it are constants.
fn constant_set(list: &[Expression]) -> Option<ConstantSet> {
    let constants = list.iter().map(|element| match element {
        Expression::Literal(value) => Some(value),
        _ => None,
    });
    let constants: Option<Vec<&Value>> = constants.collect();
    ConstantSet::of(constants?.into_iter())
}
