//! Expressions, by precedence climbing. From loose to tight:
//!
//! | level | operators | grouping |
//! |---|---|---|
//! | 1 | `? :` | right |
//! | 2 | `??` | right |
//! | 3 | `OR` | left |
//! | 4 | `AND` | left |
//! | 5 | `[NOT] IN`, `[NOT] LIKE` | at most one |
//! | 6 | `= != <> < > <= >= << >> >>>` | left |
//! | 7 | `\|\|` | left |
//! | 8 | `\| ^ & + -` | left, all one level |
//! | 9 | `* / %` | left |
//! | 10 | prefix `- + ~ NOT` | |
//! | 11 | `.name`, `[key]` | |
//!
//! So `NOT a = b` is `(NOT a) = b`, and `NOT c.x IN (1)` is `(NOT c.x) IN (1)`. `[NOT] BETWEEN` is next to
//! level 3: its three operands are of level 6, so that next to `AND`, `OR`, `IN` and `LIKE` it needs
//! parentheses.

use shardlake_document::Value;

use super::ast::{BinaryOperator, Escape, Expression, Identifier, SubqueryKind, UnaryOperator};
use super::cursor::{Parser, span};
use super::lexer::{Kind, Token, hexadecimal, is_reserved};
use crate::error::{LanguageLimit, SqlError};

/// Limit on nested parentheses, prefix operators, arguments and so on.
const NESTING_MAX: usize = 200;
/// Limit on the depth of the tree, which left-grouping chains (`1+1+1`, `a.b.c`) reach without nesting.
const DEPTH_MAX: usize = 400;

/// Below 2^53, a double without fraction is exactly one integer.
const INTEGRAL_MAX: f64 = 9_007_199_254_740_992.0;

const CONDITIONAL: u8 = 1;
const COALESCE: u8 = 2;
const OR: u8 = 3;
const AND: u8 = 4;
const MEMBERSHIP: u8 = 5;
const COMPARISON: u8 = 6;
const CONCATENATION: u8 = 7;
const ADDITIVE: u8 = 8;
const MULTIPLICATIVE: u8 = 9;

/// An expression and the depth of its tree.
type Node = (Expression, usize);

impl<'t> Parser<'t> {
    pub(super) fn beyond(&self, limit: LanguageLimit) -> SqlError {
        SqlError::beyond(limit, self.lexer.text())
    }

    /// Counts a logical operator against its limit.
    fn count(&mut self, operator: &str) -> Result<(), SqlError> {
        let (count, limit) = match operator {
            "AND" => (&mut self.ands, LanguageLimit::Ands),
            "OR" => (&mut self.ors, LanguageLimit::Ors),
            _ => return Ok(()),
        };
        *count += 1;
        if *count > limit.most() { Err(self.beyond(limit)) } else { Ok(()) }
    }

    pub fn expression(&mut self) -> Result<Expression, SqlError> {
        let (expression, depth) = self.climb(CONDITIONAL)?;
        self.query_depth = self.query_depth.max(depth);
        Ok(expression)
    }

    /// Reads operators of at least this level.
    fn climb(&mut self, level_min: u8) -> Result<Node, SqlError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(SqlError::TooDeep { nesting_max: NESTING_MAX });
        }
        let first = self.unary()?;
        let node = self.operators(first, level_min)?;
        self.nesting -= 1;
        Ok(node)
    }

    /// Operators of at least this level, after their first operand.
    fn operators(&mut self, mut node: Node, level_min: u8) -> Result<Node, SqlError> {
        // A level 5 operator has no other as its left operand; everything looser may follow.
        let mut level_max = MULTIPLICATIVE;
        let mut may_be_between = true;
        while let Some((level, operator)) = self.peek_operator() {
            if level < level_min || level > level_max {
                break;
            }
            if matches!(operator, Operator::Between { .. }) && !may_be_between {
                return Err(self.error_at_between());
            }
            node = self.operation(node, level, operator)?;
            may_be_between &= level >= COMPARISON;
            level_max = match operator {
                Operator::Between { .. } => COALESCE,
                Operator::In { .. } | Operator::Like { .. } => AND,
                _ => level_max,
            };
        }
        if may_be_between && level_min <= MEMBERSHIP && self.peek_is_word("NOT") {
            return Err(self.error_behind_not());
        }
        Ok(node)
    }

    /// The error at `BETWEEN`, which is after an optional `NOT`.
    fn error_at_between(&self) -> SqlError {
        if self.peek_is_word("NOT") { self.error_behind_not() } else { self.syntax_error_here() }
    }

    /// The error for `NOT` after an operand: only `IN`, `LIKE` and `BETWEEN` may follow it.
    fn error_behind_not(&self) -> SqlError {
        let mut ahead = self.lexer;
        ahead.next();
        self.lexer.syntax_error(ahead.next())
    }

    /// The next operator, if any, and its level.
    fn peek_operator(&self) -> Option<(u8, Operator)> {
        let token = self.peek();
        if token.kind == Kind::Word {
            return self.peek_word_operator(token);
        }
        let Kind::Symbol(symbol) = token.kind else { return None };
        let binary = |level, operator| Some((level, Operator::Binary(operator)));
        match symbol {
            "?" => Some((CONDITIONAL, Operator::Conditional)),
            "??" => Some((COALESCE, Operator::Coalesce)),
            "||" => Some((CONCATENATION, Operator::Concatenate)),
            "=" => binary(COMPARISON, BinaryOperator::Equal),
            "!=" | "<>" => binary(COMPARISON, BinaryOperator::NotEqual),
            "<" => binary(COMPARISON, BinaryOperator::Less),
            "<=" => binary(COMPARISON, BinaryOperator::LessOrEqual),
            ">" => binary(COMPARISON, BinaryOperator::Greater),
            ">=" => binary(COMPARISON, BinaryOperator::GreaterOrEqual),
            "<<" => binary(COMPARISON, BinaryOperator::ShiftLeft),
            ">>" => binary(COMPARISON, BinaryOperator::ShiftRight),
            ">>>" => binary(COMPARISON, BinaryOperator::ShiftRightZeroFill),
            "+" => binary(ADDITIVE, BinaryOperator::Add),
            "-" => binary(ADDITIVE, BinaryOperator::Subtract),
            "|" => binary(ADDITIVE, BinaryOperator::BitOr),
            "^" => binary(ADDITIVE, BinaryOperator::BitXor),
            "&" => binary(ADDITIVE, BinaryOperator::BitAnd),
            "*" => binary(MULTIPLICATIVE, BinaryOperator::Multiply),
            "/" => binary(MULTIPLICATIVE, BinaryOperator::Divide),
            "%" => binary(MULTIPLICATIVE, BinaryOperator::Modulo),
            _ => None,
        }
    }

    fn peek_word_operator(&self, token: Token) -> Option<(u8, Operator)> {
        let mut word = self.lexer.text_of(token);
        let negated = word.eq_ignore_ascii_case("NOT");
        if negated {
            let mut ahead = self.lexer;
            ahead.next();
            word = self.lexer.text_of(ahead.next());
        }
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        let operator = match () {
            () if is("IN") => Operator::In { negated },
            () if is("LIKE") => Operator::Like { negated },
            () if is("BETWEEN") => return Some((OR, Operator::Between { negated })),
            () if is("AND") && !negated => return Some((AND, Operator::And)),
            () if is("OR") && !negated => return Some((OR, Operator::Or)),
            () => return None,
        };
        Some((MEMBERSHIP, operator))
    }

    /// Reads the operator and its right side. Only dispatches, like the functions further down.
    fn operation(&mut self, left: Node, level: u8, operator: Operator) -> Result<Node, SqlError> {
        match operator {
            Operator::Binary(operator) => self.binary(left, level, operator),
            Operator::And => self.chain(left, "AND", level + 1, Expression::And),
            Operator::Or => self.chain(left, "OR", level + 1, Expression::Or),
            Operator::Concatenate => self.chain(left, "||", level + 1, Expression::Concatenate),
            // Grouping to the right, a chain of `??` evaluates to the first defined part: the same as a list
            // from the left.
            Operator::Coalesce => self.chain(left, "??", level + 1, Expression::Coalesce),
            Operator::Conditional => self.conditional(left),
            Operator::In { negated } => self.membership(left, negated),
            Operator::Between { negated } => self.between(left, negated),
            Operator::Like { negated } => self.like(left, negated),
        }
    }

    fn binary(&mut self, left: Node, level: u8, operator: BinaryOperator) -> Result<Node, SqlError> {
        self.advance();
        let right = self.climb(level + 1)?;
        let depth = left.1.max(right.1);
        node(Expression::Binary { operator, left: Box::new(left.0), right: Box::new(right.0) }, depth)
    }

    fn conditional(&mut self, condition: Node) -> Result<Node, SqlError> {
        self.advance();
        let then = self.climb(CONDITIONAL)?;
        self.expect_symbol(":")?;
        let otherwise = self.climb(CONDITIONAL)?;
        let depth = condition.1.max(then.1).max(otherwise.1);
        let (condition, then, otherwise) = (Box::new(condition.0), Box::new(then.0), Box::new(otherwise.0));
        node(Expression::Conditional { condition, then, otherwise }, depth)
    }

    fn membership(&mut self, left: Node, negated: bool) -> Result<Node, SqlError> {
        self.advance_words(negated);
        self.expect_symbol("(")?;
        let (list, list_depth) = self.list(")", false)?;
        if list.len() > LanguageLimit::ListItems.most() {
            return Err(self.beyond(LanguageLimit::ListItems));
        }
        let depth = left.1.max(list_depth);
        node(Expression::In { value: Box::new(left.0), list, negated }, depth)
    }

    fn between(&mut self, left: Node, negated: bool) -> Result<Node, SqlError> {
        self.advance_words(negated);
        let low = self.climb(COMPARISON)?;
        self.expect_word("AND")?;
        let high = self.climb(COMPARISON)?;
        let depth = left.1.max(low.1).max(high.1);
        let (value, low, high) = (Box::new(left.0), Box::new(low.0), Box::new(high.0));
        node(Expression::Between { value, low, high, negated }, depth)
    }

    fn like(&mut self, left: Node, negated: bool) -> Result<Node, SqlError> {
        self.advance_words(negated);
        let pattern = self.climb(COMPARISON)?;
        let mut escape = None;
        if self.accept_word("ESCAPE") {
            let token = self.advance();
            let text = self.unquoted(token)?;
            escape = Some(Escape { text, span: span(token) });
        }
        let depth = left.1.max(pattern.1);
        let (value, pattern) = (Box::new(left.0), Box::new(pattern.0));
        node(Expression::Like { value, pattern, escape, negated }, depth)
    }

    /// `first op part op part …` as one list.
    fn chain(
        &mut self,
        first: Node,
        operator: &str,
        part_level: u8,
        build: fn(Vec<Expression>) -> Expression,
    ) -> Result<Node, SqlError> {
        // `(a AND b) AND c` is `a AND b AND c`: chains nested by a printer become one list again.
        let (mut parts, mut depth) = match (first.0, operator) {
            (Expression::And(parts), "AND")
            | (Expression::Or(parts), "OR")
            | (Expression::Concatenate(parts), "||") => (parts, first.1 - 1),
            (expression, _) => (vec![expression], first.1),
        };
        while self.lexer.text_of(self.peek()).eq_ignore_ascii_case(operator) {
            self.advance();
            self.count(operator)?;
            let part = self.climb(part_level)?;
            parts.push(part.0);
            depth = depth.max(part.1);
        }
        // `??` nests to the right.
        if operator == "??"
            && let Some(Expression::Coalesce(tail)) =
                parts.pop_if(|last| matches!(last, Expression::Coalesce(_)))
        {
            parts.extend(tail);
        }
        node(build(parts), depth)
    }

    // From here down to `list`, the functions on the path of a nested expression only dispatch: unoptimised
    // builds reserve stack space for every branch of a function, and a deep query passes through them many
    // times.

    fn unary(&mut self) -> Result<Node, SqlError> {
        let token = self.peek();
        match token.kind {
            Kind::Symbol("-") => self.prefix(UnaryOperator::Minus),
            Kind::Symbol("+") => self.prefix(UnaryOperator::Plus),
            Kind::Symbol("~") => self.prefix(UnaryOperator::BitNot),
            Kind::Word if self.peek_is_word("NOT") => self.prefix(UnaryOperator::Not),
            _ => self.postfix(),
        }
    }

    fn prefix(&mut self, operator: UnaryOperator) -> Result<Node, SqlError> {
        self.advance();
        let mut ahead = self.lexer;
        let next = ahead.next();
        let is_number = next.kind == Kind::Number && !matches!(ahead.next().kind, Kind::Symbol("." | "["));
        if operator == UnaryOperator::Minus && is_number {
            // The sign and the number are read together, so that -2^63 stays an integer.
            let token = self.advance();
            return self.number(token, true);
        }
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(SqlError::TooDeep { nesting_max: NESTING_MAX });
        }
        let operand = self.unary()?;
        self.nesting -= 1;
        node(Expression::Unary { operator, operand: Box::new(operand.0) }, operand.1)
    }

    fn postfix(&mut self) -> Result<Node, SqlError> {
        let first = self.peek();
        let of = self.primary()?;
        match self.peek().kind {
            Kind::Symbol("." | "[") => self.path(first, of),
            _ => Ok(of),
        }
    }

    fn path(&mut self, first: Token, mut of: Node) -> Result<Node, SqlError> {
        loop {
            if self.accept_symbol(".") {
                let name = self.identifier()?.to_string();
                of = node(Expression::Property { of: Box::new(of.0), name, quoted: false }, of.1)?;
            } else if self.accept_symbol("[") {
                of = self.index(first, of)?;
            } else {
                return Ok(of);
            }
        }
    }

    fn index(&mut self, first: Token, of: Node) -> Result<Node, SqlError> {
        let (key, key_depth) = self.climb(CONDITIONAL)?;
        self.expect_symbol("]")?;
        let (of, depth) = (Box::new(of.0), of.1.max(key_depth));
        match key {
            Expression::Literal(Value::String(name)) => {
                node(Expression::Property { of, name, quoted: true }, depth)
            }
            key => node(Expression::Index { of, key: Box::new(key), span: self.span_from(first) }, depth),
        }
    }

    fn primary(&mut self) -> Result<Node, SqlError> {
        let token = self.advance();
        match token.kind {
            Kind::Word => self.word(token),
            Kind::Symbol("(") => self.parenthesised(token),
            Kind::Symbol("[") => self.array(),
            Kind::Symbol("{") => self.object(token),
            _ => self.literal(token),
        }
    }

    /// Parses after an opening parenthesis. Adjacent parentheses are counted instead of recursed into:
    /// generated queries have long chains such as `((((a OR b) OR c) …`.
    fn parenthesised(&mut self, open: Token) -> Result<Node, SqlError> {
        let mut opened = vec![open];
        while let Some(inner) = self.next_parenthesis() {
            opened.push(inner);
        }
        let mut node = self.innermost()?;
        let mut inside = opened.pop();
        while let (Some(open), Some(outer)) = (inside, opened.pop()) {
            node = self.path(open, node)?;
            node = self.operators(node, CONDITIONAL)?;
            self.expect_symbol(")")?;
            inside = Some(outer);
        }
        Ok(node)
    }

    fn next_parenthesis(&mut self) -> Option<Token> {
        let token = self.peek();
        (token.kind == Kind::Symbol("(")).then(|| self.advance())
    }

    fn innermost(&mut self) -> Result<Node, SqlError> {
        if self.peek_is_word("SELECT") {
            return self.subquery(SubqueryKind::Scalar);
        }
        if self.peek_is_let() {
            return self.let_in();
        }
        let inner = self.climb(CONDITIONAL)?;
        self.expect_symbol(")")?;
        Ok(inner)
    }

    fn array(&mut self) -> Result<Node, SqlError> {
        let (elements, depth) = self.list("]", true)?;
        node(Expression::Array(elements), depth)
    }

    fn literal(&mut self, token: Token) -> Result<Node, SqlError> {
        let text = self.lexer.text_of(token);
        match token.kind {
            Kind::Number => self.number(token, false),
            Kind::Parameter => node(Expression::Parameter(text.to_string()), 0),
            Kind::String => node(Expression::Literal(Value::String(self.unquoted(token)?)), 0),
            _ => Err(self.lexer.syntax_error(token)),
        }
    }

    /// The value of a number. `1e2` is the integer 100: in the language, numbers differ only by value.
    pub fn number_value(&self, token: Token, negative: bool) -> Result<Value, SqlError> {
        let sign = if negative { "-" } else { "" };
        let text = match hexadecimal(self.lexer.text_of(token)) {
            Some(value) => format!("{sign}{value}"),
            None => format!("{sign}{}", self.lexer.text_of(token)),
        };
        let value = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(integer), _) => Value::Int(integer),
            (_, Ok(zero)) if negative && zero == 0.0 => Value::Double(-0.0),
            (_, Ok(double)) if double.fract() == 0.0 && double.abs() < INTEGRAL_MAX => {
                Value::Int(double as i64)
            }
            (_, Ok(double)) if double.is_finite() => Value::Double(double),
            _ => return Err(self.lexer.syntax_error(token)),
        };
        Ok(value)
    }

    fn number(&mut self, token: Token, negative: bool) -> Result<Node, SqlError> {
        let value = self.number_value(token, negative)?;
        node(Expression::Literal(value), 0)
    }

    /// A literal word, a function call or an identifier.
    fn word(&mut self, token: Token) -> Result<Node, SqlError> {
        if self.is_function(token) && self.peek().kind == Kind::Symbol("(") {
            self.call(token)
        } else {
            self.name(token)
        }
    }

    fn name(&mut self, token: Token) -> Result<Node, SqlError> {
        let text = self.lexer.text_of(token);
        let is = |keyword: &str| text.eq_ignore_ascii_case(keyword);
        let next = self.peek().kind;
        if next == Kind::Symbol("(") && (is("EXISTS") || is("ARRAY")) {
            self.advance();
            return self.subquery(if is("ARRAY") { SubqueryKind::Array } else { SubqueryKind::Exists });
        }
        if text == "udf" && next == Kind::Symbol(".") {
            return self.user_defined(token);
        }
        if text == "udf" || ["LEFT", "RIGHT", "EXISTS", "ARRAY"].into_iter().any(is) {
            // More has to follow the word.
            return Err(self.syntax_error_here());
        }
        let expression = match text {
            "true" => Expression::Literal(Value::Bool(true)),
            "false" => Expression::Literal(Value::Bool(false)),
            "null" => Expression::Literal(Value::Null),
            "undefined" => Expression::Literal(Value::Undefined),
            _ if is_reserved(text) => return Err(self.lexer.syntax_error(token)),
            _ => Expression::Identifier(Identifier { name: text.to_string(), span: span(token) }),
        };
        node(expression, 0)
    }

    /// Parses a call after its name; its opening parenthesis is next.
    fn call(&mut self, token: Token) -> Result<Node, SqlError> {
        let name = self.lexer.text_of(token).to_string();
        self.advance();
        if self.peek_is_word("SELECT") {
            for (word, kind) in
                [("ALL", SubqueryKind::All), ("FIRST", SubqueryKind::First), ("LAST", SubqueryKind::Last)]
            {
                if name.eq_ignore_ascii_case(word) {
                    return self.subquery(kind);
                }
            }
        }
        let (arguments, depth) = self.list(")", true)?;
        node(Expression::Call { name, arguments, span: self.span_from(token) }, depth)
    }

    fn user_defined(&mut self, token: Token) -> Result<Node, SqlError> {
        self.advance();
        let name = self.identifier()?.to_string();
        self.expect_symbol("(")?;
        let (arguments, depth) = self.list(")", true)?;
        node(Expression::UserDefined { name, arguments, span: self.span_from(token) }, depth)
    }

    /// Parses a subquery from `SELECT` to its closing parenthesis. It counts as several levels, as each of
    /// its levels needs more stack.
    fn subquery(&mut self, kind: SubqueryKind) -> Result<Node, SqlError> {
        const LEVELS: usize = 8;
        self.nesting += LEVELS;
        if self.nesting > NESTING_MAX {
            return Err(SqlError::TooDeep { nesting_max: NESTING_MAX });
        }
        let depth_around = std::mem::take(&mut self.query_depth);
        let query = super::clauses::query(self)?;
        self.expect_symbol(")")?;
        let depth = std::mem::replace(&mut self.query_depth, depth_around) + LEVELS;
        self.nesting -= LEVELS;
        node(Expression::Subquery { kind, query: Box::new(query) }, depth)
    }

    /// `(SELECT …)` in `FROM`.
    pub fn subquery_source(&mut self) -> Result<super::ast::Query, SqlError> {
        self.expect_symbol("(")?;
        match self.subquery(SubqueryKind::Scalar)? {
            (Expression::Subquery { query, .. }, depth) => {
                self.query_depth = self.query_depth.max(depth);
                Ok(*query)
            }
            _ => Err(self.syntax_error_here()),
        }
    }

    /// `RANK` and the name of a function: without it, `RANK` is a name like others.
    pub fn peek_is_rank(&self) -> bool {
        let mut lexer = self.lexer;
        let (first, second) = (lexer.next(), lexer.next());
        self.lexer.text_of(first).eq_ignore_ascii_case("RANK") && self.is_function(second)
    }

    /// The next tokens are a name and an opening parenthesis.
    pub fn expect_call(&self) -> Result<(), SqlError> {
        let mut lexer = self.lexer;
        let (_, second) = (lexer.next(), lexer.next());
        if second.kind == Kind::Symbol("(") { Ok(()) } else { Err(self.lexer.syntax_error(second)) }
    }

    fn is_function(&self, token: Token) -> bool {
        let text = self.lexer.text_of(token);
        let is_name =
            !is_reserved(text) || text.eq_ignore_ascii_case("LEFT") || text.eq_ignore_ascii_case("RIGHT");
        token.kind == Kind::Word && is_name
    }

    fn peek_is_let(&self) -> bool {
        let mut lexer = self.lexer;
        let (first, second, third) = (lexer.next(), lexer.next(), lexer.next());
        self.lexer.text_of(first).eq_ignore_ascii_case("LET")
            && second.kind == Kind::Word
            && third.kind == Kind::Symbol("=")
    }

    /// `LET name = value IN body)`
    fn let_in(&mut self) -> Result<Node, SqlError> {
        self.advance();
        let name = self.identifier_token()?;
        self.expect_symbol("=")?;
        let value = self.climb(COMPARISON)?;
        self.expect_word("IN")?;
        let body = self.climb(COMPARISON)?;
        self.expect_symbol(")")?;
        let depth = value.1.max(body.1);
        node(Expression::Let { name, value: Box::new(value.0), body: Box::new(body.0) }, depth)
    }

    /// `expr, expr …` up to and past the closing symbol.
    fn list(
        &mut self,
        close: &'static str,
        may_be_empty: bool,
    ) -> Result<(Vec<Expression>, usize), SqlError> {
        let (mut parts, mut depth) = (Vec::new(), 0);
        if may_be_empty && self.accept_symbol(close) {
            return Ok((parts, depth));
        }
        loop {
            let part = self.climb(CONDITIONAL)?;
            parts.push(part.0);
            depth = depth.max(part.1);
            if !self.accept_symbol(",") {
                self.expect_symbol(close)?;
                return Ok((parts, depth));
            }
        }
    }

    fn object(&mut self, open: Token) -> Result<Node, SqlError> {
        let (mut members, mut depth): (Vec<(String, Expression)>, usize) = (Vec::new(), 0);
        if self.accept_symbol("}") {
            return self.object_node(open, members, depth);
        }
        loop {
            let token = self.advance();
            let text = self.lexer.text_of(token);
            let name = match token.kind {
                Kind::Word if !is_reserved(text) => text.to_string(),
                _ => self.unquoted(token)?,
            };
            self.expect_symbol(":")?;
            let value = self.climb(CONDITIONAL)?;
            depth = depth.max(value.1);
            members.push((name, value.0));
            if !self.accept_symbol(",") {
                self.expect_symbol("}")?;
                return self.object_node(open, members, depth);
            }
        }
    }

    fn object_node(
        &self,
        open: Token,
        members: Vec<(String, Expression)>,
        depth: usize,
    ) -> Result<Node, SqlError> {
        node(Expression::Object { members, span: self.span_from(open) }, depth)
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Binary(BinaryOperator),
    And,
    Or,
    Concatenate,
    Coalesce,
    Conditional,
    In { negated: bool },
    Like { negated: bool },
    Between { negated: bool },
}

/// A tree whose deepest part has the given depth.
fn node(expression: Expression, depth_of_parts: usize) -> Result<Node, SqlError> {
    if depth_of_parts >= DEPTH_MAX {
        return Err(SqlError::TooDeep { nesting_max: DEPTH_MAX });
    }
    Ok((expression, depth_of_parts + 1))
}
