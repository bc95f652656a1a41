//! Prints trees as query text that parses to an equal tree.
//!
//! Two spellings of the same text: [`Style::Service`] is the service's text of rewritten queries (a clause
//! per line, a sort direction only where one was written), [`Style::Compact`] is the canonical text of the
//! .NET SDK's own parser (one line, its odd spaces included). In both, keywords are upper case, every
//! operation has its parentheses, and strings are JSON. Names of functions and `c.x` against `c["x"]` stay as
//! they were written.
//!
//! Trees that the planner builds may hold text that is not an identifier under [`Expression::Identifier`],
//! such as the placeholders of resumable queries: it is printed unchanged.

use shardlake_document::Value;

use super::ast::{
    Collection, Count, CountValue, Direction, Expression, OrderBy, OrderKey, PathStep, Query, Select,
    SelectItem, Selection, Source, SubqueryKind,
};
use super::lexer::{is_identifier, is_reserved};
use crate::error::quoted;
use crate::syntax::ast::{BinaryOperator, UnaryOperator};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Service,
    Compact,
}

/// Prints a query as the service prints rewritten queries.
pub(crate) fn print_query(query: &Query) -> String {
    let mut printer = Printer { out: String::new(), style: Style::Service };
    printer.query(query);
    printer.out
}

/// Prints an expression as the service does in a query plan.
pub(crate) fn print_expression(expression: &Expression) -> String {
    let mut printer = Printer { out: String::new(), style: Style::Service };
    printer.expression(expression);
    printer.out
}

/// One line, as the .NET SDK's parser prints a tree.
pub(crate) fn print_compact(query: &Query) -> String {
    let mut printer = Printer { out: String::new(), style: Style::Compact };
    printer.query(query);
    printer.out
}

struct Printer {
    out: String,
    style: Style,
}

impl Printer {
    fn query(&mut self, query: &Query) {
        self.select(&query.select);
        if let Some(from) = &query.from {
            self.clause("FROM ");
            self.collection(from);
        }
        if let Some(filter) = &query.filter {
            self.clause("WHERE ");
            self.expression(filter);
        }
        if !query.group_by.is_empty() {
            self.clause("GROUP BY ");
            self.separated(&query.group_by, |printer, key| printer.expression(&key.expression));
            if self.style == Style::Compact {
                self.put(" ");
            }
        }
        if let Some(order_by) = &query.order_by {
            self.clause("ORDER BY ");
            self.order_by(order_by);
        }
        if let Some(offset_limit) = &query.offset_limit {
            self.clause("OFFSET ");
            self.count(&offset_limit.offset);
            self.put(" LIMIT ");
            self.count(&offset_limit.limit);
        }
    }

    fn select(&mut self, select: &Select) {
        self.put("SELECT ");
        if select.distinct {
            self.put("DISTINCT ");
        }
        if let Some(top) = &select.top {
            self.put("TOP ");
            self.count(top);
            self.put(" ");
        }
        match &select.selection {
            Selection::All => self.put("*"),
            Selection::Value(expression) => {
                self.put("VALUE ");
                self.expression(expression);
            }
            Selection::Items(items) => self.separated(items, Printer::select_item),
        }
    }

    fn select_item(&mut self, item: &SelectItem) {
        self.expression(&item.expression);
        let Some(alias) = &item.alias else { return };
        self.put(" AS ");
        if is_name(alias) { self.put(alias) } else { self.string(alias) }
    }

    fn collection(&mut self, collection: &Collection) {
        match collection {
            Collection::Aliased { source, alias } => {
                self.source(source);
                if let Some(alias) = alias {
                    self.put(" AS ");
                    self.put(&alias.name);
                }
            }
            Collection::Iterate { alias, source } => {
                self.put(&alias.name);
                self.put(" IN ");
                self.source(source);
            }
            Collection::Join { left, right } => {
                self.collection(left);
                self.clause("JOIN ");
                self.collection(right);
            }
        }
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Path { root, path } => {
                self.put(&root.name);
                path.iter().for_each(|step| self.path_step(step));
            }
            Source::Subquery(query) => self.subquery("", query),
        }
    }

    fn path_step(&mut self, step: &PathStep) {
        match step {
            PathStep::Name { name, quoted } => self.member(name, *quoted),
            PathStep::Index(index) => self.put(&format!("[{index}]")),
        }
    }

    /// `.name` or `["name"]`.
    fn member(&mut self, name: &str, quoted: bool) {
        if quoted || !is_name(name) {
            self.put("[");
            self.string(name);
            self.put("]");
        } else {
            self.put(".");
            self.put(name);
        }
    }

    fn order_by(&mut self, order_by: &OrderBy) {
        match order_by {
            OrderBy::Keys { keys, .. } => self.separated(keys, Printer::order_key),
            OrderBy::Rank { call, direction, .. } => {
                self.put("RANK ");
                self.expression(call);
                self.direction(*direction);
            }
        }
    }

    fn order_key(&mut self, key: &OrderKey) {
        self.expression(&key.expression);
        let written = self.style == Style::Service;
        self.direction(if written { key.direction } else { key.direction.or(Some(Direction::Ascending)) });
    }

    fn direction(&mut self, direction: Option<Direction>) {
        self.put(match direction {
            None => "",
            Some(Direction::Ascending) => " ASC",
            Some(Direction::Descending) => " DESC",
        });
    }

    fn count(&mut self, count: &Count) {
        match &count.value {
            CountValue::Number(value) => self.literal(value),
            CountValue::Parameter(name) => self.put(name),
        }
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Literal(value) => self.literal(value),
            Expression::Parameter(name) => self.put(name),
            Expression::Identifier(identifier) => self.put(&identifier.name),
            Expression::Property { of, name, quoted } => {
                self.base(of);
                self.member(name, *quoted);
            }
            Expression::Index { of, key, .. } => {
                self.base(of);
                self.put("[");
                self.expression(key);
                self.put("]");
            }
            Expression::Array(elements) => {
                self.put("[");
                self.list(elements);
                self.put("]");
            }
            Expression::Object { members, .. } => self.object(members),
            Expression::Call { name, arguments, .. } => self.call("", name, arguments),
            Expression::UserDefined { name, arguments, .. } => self.call("udf.", name, arguments),
            Expression::Subquery { kind, query } => self.subquery(subquery_word(*kind), query),
            Expression::And(parts) => self.left_nested(parts, " AND "),
            Expression::Or(parts) => self.left_nested(parts, " OR "),
            Expression::Concatenate(parts) => self.left_nested(parts, " || "),
            Expression::Coalesce(parts) => self.right_nested(parts, " ?? "),
            operation => {
                self.put("(");
                self.operation(operation);
                self.put(")");
            }
        }
    }

    /// An expression with its own parentheses.
    fn operation(&mut self, expression: &Expression) {
        let not = |negated: bool| if negated { " NOT" } else { "" };
        match expression {
            Expression::Unary { operator, operand } => {
                self.put(unary_word(*operator));
                self.put(" ");
                self.expression(operand);
            }
            Expression::Binary { operator, left, right } => self.infix(left, binary_word(*operator), right),
            Expression::Conditional { condition, then, otherwise } => {
                self.infix(condition, "?", then);
                self.put(" : ");
                self.expression(otherwise);
            }
            Expression::In { value, list, negated } => {
                self.expression(value);
                self.put(not(*negated));
                self.put(" IN (");
                self.list(list);
                self.put(")");
            }
            Expression::Between { value, low, high, negated } => {
                self.expression(value);
                self.put(not(*negated));
                self.put(" BETWEEN ");
                self.infix(low, "AND", high);
            }
            Expression::Like { value, pattern, escape, negated } => {
                self.expression(value);
                self.put(not(*negated));
                // The SDK prints two spaces here.
                self.put(if *negated && self.style == Style::Compact { "  LIKE " } else { " LIKE " });
                self.expression(pattern);
                if let Some(escape) = escape {
                    self.put(" ESCAPE ");
                    self.string(&escape.text);
                }
            }
            Expression::Let { name, value, body } => {
                self.put(&format!("LET {} = ", name.name));
                self.infix(value, "IN", body);
            }
            other => self.expression(other),
        }
    }

    fn infix(&mut self, left: &Expression, operator: &str, right: &Expression) {
        self.expression(left);
        self.put(" ");
        self.put(operator);
        self.put(" ");
        self.expression(right);
    }

    /// `((a AND b) AND c)`, without going deeper for each part.
    fn left_nested(&mut self, parts: &[Expression], operator: &str) {
        (1..parts.len()).for_each(|_| self.put("("));
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.put(operator);
            }
            self.expression(part);
            if at > 0 {
                self.put(")");
            }
        }
    }

    /// `(a ?? (b ?? c))`.
    fn right_nested(&mut self, parts: &[Expression], operator: &str) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.put(operator);
            }
            if at + 1 < parts.len() {
                self.put("(");
            }
            self.expression(part);
        }
        (1..parts.len()).for_each(|_| self.put(")"));
    }

    /// The base of a member access. A number needs parentheses, or its digits would run into the dot.
    fn base(&mut self, of: &Expression) {
        if let Expression::Literal(Value::Int(_) | Value::Double(_)) = of {
            self.put("(");
            self.expression(of);
            self.put(")");
        } else {
            self.expression(of);
        }
    }

    fn object(&mut self, members: &[(String, Expression)]) {
        self.put("{");
        self.separated(members, |printer, (name, value)| {
            printer.string(name);
            printer.put(": ");
            printer.expression(value);
        });
        self.put("}");
    }

    fn call(&mut self, prefix: &str, name: &str, arguments: &[Expression]) {
        self.put(prefix);
        self.put(name);
        self.put("(");
        self.list(arguments);
        self.put(")");
    }

    fn subquery(&mut self, word: &str, query: &Query) {
        self.put(word);
        self.put("(");
        self.query(query);
        self.put(")");
    }

    fn literal(&mut self, value: &Value) {
        match value {
            Value::Undefined => self.put("undefined"),
            Value::Double(number) if number.is_nan() => self.put("NaN"),
            Value::Double(number) if number.is_infinite() => {
                self.put(if *number > 0.0 { "Infinity" } else { "(- Infinity)" });
            }
            // Printed with a fraction or an exponent, so that it is read as a double again.
            Value::Double(number) => self.put(&format!("{number:?}")),
            value => match value.to_json() {
                Ok(text) => self.put(&text),
                // A value that contains a part without text is printed as undefined.
                Err(_) => self.put("undefined"),
            },
        }
    }

    fn string(&mut self, text: &str) {
        self.put(&quoted(text));
    }

    fn list(&mut self, expressions: &[Expression]) {
        self.separated(expressions, Printer::expression);
    }

    fn separated<T>(&mut self, parts: &[T], mut print: impl FnMut(&mut Printer, &T)) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.put(", ");
            }
            print(self, part);
        }
    }

    /// A clause, or a `JOIN`, on a new line or after a space.
    fn clause(&mut self, keyword: &str) {
        self.put(if self.style == Style::Service { "\n" } else { " " });
        self.put(keyword);
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }
}

fn is_name(text: &str) -> bool {
    is_identifier(text) && !is_reserved(text)
}

fn subquery_word(kind: SubqueryKind) -> &'static str {
    match kind {
        SubqueryKind::Scalar => "",
        SubqueryKind::Exists => "EXISTS",
        SubqueryKind::Array => "ARRAY",
        SubqueryKind::All => "ALL",
        SubqueryKind::First => "FIRST",
        SubqueryKind::Last => "LAST",
    }
}

fn unary_word(operator: UnaryOperator) -> &'static str {
    match operator {
        UnaryOperator::Not => "NOT",
        UnaryOperator::Minus => "-",
        UnaryOperator::Plus => "+",
        UnaryOperator::BitNot => "~",
    }
}

fn binary_word(operator: BinaryOperator) -> &'static str {
    match operator {
        BinaryOperator::Equal => "=",
        BinaryOperator::NotEqual => "!=",
        BinaryOperator::Less => "<",
        BinaryOperator::LessOrEqual => "<=",
        BinaryOperator::Greater => ">",
        BinaryOperator::GreaterOrEqual => ">=",
        BinaryOperator::Add => "+",
        BinaryOperator::Subtract => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::BitAnd => "&",
        BinaryOperator::BitOr => "|",
        BinaryOperator::BitXor => "^",
        BinaryOperator::ShiftLeft => "<<",
        BinaryOperator::ShiftRight => ">>",
        BinaryOperator::ShiftRightZeroFill => ">>>",
    }
}

#[cfg(test)]
mod tests;
