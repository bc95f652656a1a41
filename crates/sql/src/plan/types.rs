//! Types that the value of an expression can have over all items.
//!
//! The answer is a superset, so a condition that cannot be boolean can never be true. Operators and functions
//! of operands with wrong types are undefined.

use std::ops::BitOr;

use shardlake_document::Value;

use crate::bound::Expression;
use crate::functions::Function;
use crate::syntax::ast::{BinaryOperator, SubqueryKind, UnaryOperator};

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub const UNDEFINED: Types = Types(1);
    const NULL: Types = Types(1 << 1);
    pub const BOOL: Types = Types(1 << 2);
    const NUMBER: Types = Types(1 << 3);
    const STRING: Types = Types(1 << 4);
    const ARRAY: Types = Types(1 << 5);
    const OBJECT: Types = Types(1 << 6);
    const ALL: Types = Types((1 << 7) - 1);
    /// Only values of the same one of these types are less or greater than one another.
    const ORDERED: Types = Types(1 << 1 | 1 << 2 | 1 << 3 | 1 << 4);

    /// The letters of the function table.
    fn of_letter(letter: char) -> Types {
        match letter {
            '0' => Types::NULL,
            'a' => Types::ARRAY,
            'b' => Types::BOOL,
            'n' => Types::NUMBER,
            'o' => Types::OBJECT,
            's' => Types::STRING,
            _ => Types::ALL,
        }
    }

    pub fn of(expression: &Expression) -> Types {
        let all_are = |parts: &[Expression], types: Types| parts.iter().all(|it| Types::of(it).meets(types));
        match expression {
            Expression::Literal(value) => Types::of_value(value),
            Expression::Property { of, .. } | Expression::Index { of, .. } => {
                Types::ALL.where_true(Types::of(of).meets(Types::OBJECT | Types::ARRAY))
            }
            Expression::Unary { operator: UnaryOperator::Not, operand } => {
                Types::BOOL.where_true(Types::of(operand).meets(Types::BOOL))
            }
            Expression::Unary { operand, .. } => {
                Types::NUMBER.where_true(Types::of(operand).meets(Types::NUMBER))
            }
            Expression::Binary { operator, left, right } => {
                Types::of_binary(*operator, Types::of(left), Types::of(right))
            }
            Expression::And(_) | Expression::Or(_) | Expression::In { .. } | Expression::Between { .. } => {
                Types::BOOL | Types::UNDEFINED
            }
            Expression::Like { value, pattern, .. } => {
                let are_texts =
                    Types::of(value).meets(Types::STRING) && Types::of(pattern).meets(Types::STRING);
                Types::BOOL.where_true(are_texts)
            }
            Expression::Concatenate(parts) => Types::STRING.where_true(all_are(parts, Types::STRING)),
            Expression::Coalesce(parts) => {
                parts.iter().map(Types::of).fold(Types::UNDEFINED, |all, part| all | part)
            }
            Expression::Conditional { then, otherwise, .. } => Types::of(then) | Types::of(otherwise),
            Expression::Array(_) => Types::ARRAY,
            Expression::Object(_) => Types::OBJECT,
            Expression::Call { function, arguments, .. } => Types::of_call(*function, arguments),
            Expression::Subquery { kind: SubqueryKind::Exists | SubqueryKind::All, .. } => Types::BOOL,
            Expression::Subquery { kind: SubqueryKind::Array, .. } => Types::ARRAY,
            _ => Types::ALL,
        }
    }

    fn of_binary(operator: BinaryOperator, left: Types, right: Types) -> Types {
        use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        match operator {
            Equal | NotEqual => Types::BOOL.where_true(left != Types::UNDEFINED && right != Types::UNDEFINED),
            Less | LessOrEqual | Greater | GreaterOrEqual => {
                Types::BOOL.where_true(left.can_be_ordered_with(right))
            }
            _ => Types::NUMBER.where_true(left.meets(Types::NUMBER) && right.meets(Types::NUMBER)),
        }
    }

    fn of_call(function: Function, arguments: &[Expression]) -> Types {
        let (kinds, result) = function.kinds();
        let result = result.chars().next().map_or(Types::ALL, Types::of_letter);
        let last = kinds.chars().last().unwrap_or('*');
        let mut kinds = kinds.chars().chain(std::iter::repeat(last)).map(Types::of_letter);
        let fits = |argument: &Expression| Types::of(argument).meets(kinds.next().unwrap_or(Types::ALL));
        result.where_true(arguments.iter().all(fits))
    }

    fn of_value(value: &Value) -> Types {
        match value {
            Value::Undefined => Types::UNDEFINED,
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOL,
            Value::Int(_) | Value::Double(_) => Types::NUMBER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    /// Whether the sets have a type in common.
    pub fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether values of the two sets can be equal.
    pub fn can_equal(self, other: Types) -> bool {
        self.0 & other.0 & !Types::UNDEFINED.0 != 0
    }

    pub fn can_be_ordered_with(self, other: Types) -> bool {
        self.0 & other.0 & Types::ORDERED.0 != 0
    }

    /// These types or undefined, where the operands have the right types; undefined otherwise.
    fn where_true(self, is_right: bool) -> Types {
        if is_right { self | Types::UNDEFINED } else { Types::UNDEFINED }
    }
}

impl BitOr for Types {
    type Output = Types;

    fn bitor(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }
}
