//! From query text to its syntax tree, and back to text.

pub(crate) mod ast;
