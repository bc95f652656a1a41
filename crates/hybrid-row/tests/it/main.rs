//! HybridRow batches: the recorded bodies of the .NET SDK, any bytes, and values that are written and read again.

mod any_bytes;
mod any_rows;
mod recorded;
mod round_trips;
