//! Direct mode: recorded frames of the .NET and Java clients, and any bytes.

mod any_bytes;
mod recorded;
