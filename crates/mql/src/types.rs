//! Sets of BSON types that a field may have.

use crate::value::Value;
use crate::value_type::TYPES;

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u32);

impl Types {
    pub const ANY: Types = Types(u32::MAX);
    pub const STRING: Types = Types(1 << 2);
    pub const OBJECT: Types = Types(1 << 3);
    pub const ARRAY: Types = Types(1 << 4);
    pub const BINARY: Types = Types(1 << 5);
    /// A boolean and nothing else.
    pub const BOOL_ONLY: Types = Types(1 << 8);
    pub const TIMESTAMP: Types = Types(1 << 17);
    pub const LONG: Types = Types(1 << 18);
    pub const INTEGER: Types = Types(1 << 16 | 1 << 18);
    pub const NUMBER: Types = Types(1 << 1 | 1 << 16 | 1 << 18 | 1 << 19);
    /// Types of most flags: a number other than zero is true.
    pub const BOOL: Types = Types::NUMBER.or(Types::BOOL_ONLY);

    pub const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub fn has(self, value: &Value) -> bool {
        self.0 & place(value.type_number()) != 0
    }

    /// As messages list them.
    pub fn describe(self) -> String {
        let names: Vec<&str> =
            TYPES.iter().filter(|(number, _)| self.0 & place(*number) != 0).map(|(_, name)| *name).collect();
        match names.as_slice() {
            [one] => format!("type '{one}'"),
            _ => format!("types '[{}]'", names.join(", ")),
        }
    }
}

/// The place of a type in the set, by its number.
fn place(number: i32) -> u32 {
    match number {
        -1 => 1 << 21,
        127 => 1 << 20,
        number => 1 << number,
    }
}
