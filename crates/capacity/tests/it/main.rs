//! Budgets and what is decided over partitions.

mod budget;
