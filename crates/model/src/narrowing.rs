//! Which items a unique key of a collection is about (spec mongo.md §7: sparse and partial indexes), and how it compares strings.
//!
//! The engine judges an item when it claims its values, whichever front end wrote it, so the rule is kept with the container and
//! speaks of the scalars that every stored document has.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Narrowing {
    /// Items that have at least one of the key's paths.
    Sparse,
    Where(ItemRule),
    /// Strings are compared by a collation.
    Collated {
        /// As the crate `collation` writes them.
        rules: String,
        /// Of the tables that the stored sort keys were made with.
        version: String,
        /// All items, where there is nothing.
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
    /// Also where there is nothing.
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
