//! Sets of BSON types that a field may have.

use crate::value::Value;

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u32);

/// Every type with its place in the set; the order in which they are named in messages.
const NAMES: &[(u32, &str)] = &[
    (1, "double"),
    (2, "string"),
    (3, "object"),
    (4, "array"),
    (5, "binData"),
    (6, "undefined"),
    (7, "objectId"),
    (8, "bool"),
    (9, "date"),
    (10, "null"),
    (11, "regex"),
    (12, "dbPointer"),
    (13, "javascript"),
    (14, "symbol"),
    (15, "javascriptWithScope"),
    (16, "int"),
    (17, "timestamp"),
    (18, "long"),
    (19, "decimal"),
    (20, "maxKey"),
    (21, "minKey"),
];

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
        self.0 & (1 << place(value)) != 0
    }

    /// As messages list them.
    pub fn describe(self) -> String {
        let names: Vec<&str> =
            NAMES.iter().filter(|(at, _)| self.0 & (1 << at) != 0).map(|(_, name)| *name).collect();
        match names.as_slice() {
            [one] => format!("type '{one}'"),
            _ => format!("types '[{}]'", names.join(", ")),
        }
    }
}

fn place(value: &Value) -> u32 {
    match value.type_number() {
        -1 => 21,
        127 => 20,
        number => number as u32,
    }
}
