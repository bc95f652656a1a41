//! The owner of partitions: the partitions that are open in this process, and the execution of commands on them.
//!
//! | file | contents |
//! |---|---|
//! | `hosted.rs` | an open partition, with the state of its container that its owner needs |
//! | `command.rs`, `items.rs`, `feeds.rs`, `copies.rs` | commands, as data, and how each of them runs |
//! | `travel.rs`, `changes.rs` | the forms in which commands, replies and changes travel between nodes |
//! | `loopback.rs` | a partition reached as if it were on another node |
//! | `admission.rs` | budget reservation before an operation, and settlement after it |
//!
//! Only this crate and `partition` hold an open partition. Everything above knows partitions by their handles
//! (`shardlake-router`) and sends them commands.

mod admission;
mod changes;
mod command;
mod copies;
mod feeds;
mod hosted;
mod items;
pub mod loopback;
mod travel;

pub use admission::{Cost, OperationKind, Permit, Touched, urgency_of};
pub use command::Command;
pub use copies::{ApplyCopies, ApplyFunction, ApplyUnique, ForgetFunction, ReadFunctionProgress};
pub use feeds::{
    FindVersionsSince, PassTime, ReadChanges, ReadFeed, ReadInOrder, ReadLog, Trim, span_of, span_of_point,
    touched,
};
pub use hosted::{HostEnvironment, Hosted, HostedContainer, Opening};
pub use items::{CheckSession, DeleteKey, FindOrdinal, ReadItem, WriteBatch, WriteItem, cost_of_item};
pub use travel::{ErrorForm, Travels, of_bytes, to_bytes};

/// Whether the heat of partitions is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeatRecording {
    #[default]
    On,
    /// For measuring the cost of counting.
    Off,
}
