//! The syntax tree of a query as written: nothing is resolved, folded or checked beyond the grammar
//! (engine.md §1.2).
//!
//! Operators that chain and are associative hold lists, so that long conditions stay shallow; the parser
//! bounds the depth of everything else, and code over trees may recurse. Places are byte offsets into the
//! query text; printing and comparing trees ignores them.

use shardlake_document::Value;

/// A place in the query text, in bytes; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    pub select: Select,
    pub from: Option<Collection>,
    pub filter: Option<Expression>,
    pub group_by: Vec<GroupKey>,
    pub order_by: Option<OrderBy>,
    pub offset_limit: Option<OffsetLimit>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    pub distinct: bool,
    pub top: Option<Count>,
    pub selection: Selection,
    /// The whole `TOP n`; the count has the place of the number.
    pub top_span: Span,
    /// From `SELECT` to the last character of the selection.
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    All,
    Value(Expression),
    Items(Vec<SelectItem>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SelectItem {
    pub expression: Expression,
    pub alias: Option<String>,
    /// The alias or the last name of a path, if there is one.
    pub name_span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupKey {
    pub expression: Expression,
    pub span: Span,
}

/// The number of `TOP`, `OFFSET` or `LIMIT`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Count {
    pub value: CountValue,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CountValue {
    /// Any number that the grammar accepts; the binder checks that it is an integer in range.
    Number(Value),
    /// With its `@`.
    Parameter(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OffsetLimit {
    pub offset: Count,
    pub limit: Count,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Collection {
    /// `source [[AS] alias]`
    Aliased { source: Source, alias: Option<Identifier> },
    /// `alias IN source`
    Iterate { alias: Identifier, source: Source },
    /// Left-associative.
    Join { left: Box<Collection>, right: Box<Collection> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A name and the constant path after it.
    Path {
        root: Identifier,
        path: Vec<PathStep>,
    },
    Subquery(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PathStep {
    /// `.name`, or `["name"]` when quoted.
    Name {
        name: String,
        quoted: bool,
    },
    Index(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identifier {
    pub name: String,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OrderBy {
    Keys {
        keys: Vec<OrderKey>,
        /// The clause, from `ORDER` on.
        span: Span,
    },
    /// `ORDER BY RANK call`; the expression is a [`Expression::Call`].
    Rank {
        call: Expression,
        direction: Option<Direction>,
        /// The clause, from `ORDER` on.
        span: Span,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderKey {
    pub expression: Expression,
    /// `None` if it is not written, which means ascending.
    pub direction: Option<Direction>,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    /// Never an array or object.
    Literal(Value),
    /// With its `@`.
    Parameter(String),
    Identifier(Identifier),
    /// `of.name`, or `of["name"]` when quoted.
    Property {
        of: Box<Expression>,
        name: String,
        quoted: bool,
    },
    /// `of[key]` with any other expression as key.
    Index {
        of: Box<Expression>,
        key: Box<Expression>,
        span: Span,
    },
    Unary {
        operator: UnaryOperator,
        operand: Box<Expression>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Coalesce(Vec<Expression>),
    Concatenate(Vec<Expression>),
    Conditional {
        condition: Box<Expression>,
        then: Box<Expression>,
        otherwise: Box<Expression>,
    },
    In {
        value: Box<Expression>,
        list: Vec<Expression>,
        negated: bool,
    },
    Between {
        value: Box<Expression>,
        low: Box<Expression>,
        high: Box<Expression>,
        negated: bool,
    },
    Like {
        value: Box<Expression>,
        pattern: Box<Expression>,
        escape: Option<Escape>,
        negated: bool,
    },
    /// A built-in function or aggregate under the name as written; `LEFT` and `RIGHT` are calls too.
    Call {
        name: String,
        arguments: Vec<Expression>,
        span: Span,
    },
    /// `UDF.name(…)`
    UserDefined {
        name: String,
        arguments: Vec<Expression>,
        span: Span,
    },
    Array(Vec<Expression>),
    Object {
        members: Vec<(String, Expression)>,
        span: Span,
    },
    Subquery {
        kind: SubqueryKind,
        query: Box<Query>,
    },
    /// `(LET name = value IN body)`
    Let {
        name: Identifier,
        value: Box<Expression>,
        body: Box<Expression>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Not,
    Minus,
    Plus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    ShiftRightZeroFill,
}

/// The text after `ESCAPE`; the binder checks that it is one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Escape {
    pub text: String,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubqueryKind {
    /// `(SELECT …)`: the only row, or undefined.
    Scalar,
    Exists,
    Array,
    All,
    First,
    Last,
}

impl Expression {
    /// The direct parts; subqueries are not split.
    pub fn children(&self) -> Vec<&Expression> {
        match self {
            Expression::Literal(_)
            | Expression::Parameter(_)
            | Expression::Identifier(_)
            | Expression::Subquery { .. } => Vec::new(),
            Expression::Property { of: a, .. } | Expression::Unary { operand: a, .. } => vec![a],
            Expression::Index { of: a, key: b, .. }
            | Expression::Binary { left: a, right: b, .. }
            | Expression::Like { value: a, pattern: b, .. }
            | Expression::Let { value: a, body: b, .. } => vec![a, b],
            Expression::Conditional { condition: a, then: b, otherwise: c }
            | Expression::Between { value: a, low: b, high: c, .. } => vec![a, b, c],
            Expression::In { value, list, .. } => std::iter::once(&**value).chain(list).collect(),
            Expression::And(parts)
            | Expression::Or(parts)
            | Expression::Coalesce(parts)
            | Expression::Concatenate(parts)
            | Expression::Call { arguments: parts, .. }
            | Expression::UserDefined { arguments: parts, .. }
            | Expression::Array(parts) => parts.iter().collect(),
            Expression::Object { members, .. } => members.iter().map(|(_, value)| value).collect(),
        }
    }
}
