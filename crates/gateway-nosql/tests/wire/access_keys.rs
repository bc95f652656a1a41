//! Tokens limited to a partition key.
