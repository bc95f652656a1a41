//! What decides over physical partitions as a whole: how much throughput each may hand out, and what is wrong with them.
//!
//! Pure rules on given times; nothing here reads a clock, stores a byte or calls a partition. The account asks and obeys.
//!
//! | module | what it decides |
//! |---|---|
//! | `budget` | whether an operation is admitted, and when it may come again if not |
//! | `diagnosis` | why partitions are busy or full, and what helps |
//! | `policy` | when partitions are split, and when a merge is worth while |

pub mod budget;
pub mod diagnosis;
pub mod policy;
