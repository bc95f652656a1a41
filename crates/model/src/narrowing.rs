//! Narrowing of a collection's unique key: the items that it applies to (spec mongo.md §7: sparse and partial
//! indexes), and how it compares strings.
//!
//! The engine applies the rule when an item claims its values, whichever front end wrote the item, so the
//! rule is kept with the container and uses only scalars, which every stored document has.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Narrowing {
    /// Items that have at least one of the key's paths.
    Sparse,
    Where(ItemRule),
    /// Strings are compared by a collation.
    Collated {
        /// In the format of the crate `collation`.
        rules: String,
        /// The version of the tables that the stored sort keys were made with.
        version: String,
        /// All items, if absent.
        narrowing: Option<Box<Narrowing>>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemRule {
    All(Vec<ItemRule>),
    Any(Vec<ItemRule>),
    /// A value at the path, or an element of an array there, passes.
    At {
        path: Vec<String>,
        test: ValueTest,
    },
}

/// Values of another kind than the operand's never pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueTest {
    Exists,
    /// Also for missing values.
    Null,
    Equal(RuleScalar),
    Greater(RuleScalar),
    AtLeast(RuleScalar),
    Less(RuleScalar),
    AtMost(RuleScalar),
    Kind(ValueKind),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleScalar {
    Bool(bool),
    Int(i64),
    /// Finite.
    Double(f64),
    String(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueKind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Document,
    Double,
    Decimal,
    Binary,
    ObjectId,
    Date,
    Timestamp,
    Regex,
    MinKey,
    MaxKey,
}
