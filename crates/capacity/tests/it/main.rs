//! Budgets, and rules for partitions.

mod budget;
