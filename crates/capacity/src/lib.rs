//! Capacity rules for physical partitions: how much throughput each may hand out, and diagnosis of their load.
//!
//! Pure rules on given times; nothing here reads a clock, stores a byte or calls a partition. The
//! account asks and obeys.
//!
//! | module | decision |
//! |---|---|
//! | `budget` | whether an operation is admitted, and when to retry if not |
//! | `diagnosis` | why partitions are busy or full, and what helps |
//! | `policy` | when partitions are split, and when a merge is worth while |

pub mod budget;
pub mod diagnosis;
pub mod policy;
