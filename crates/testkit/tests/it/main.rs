//! The fixtures against themselves, and the rules that hold for the whole repository.
//!
//! One program for all files, because linking takes most of the time.

mod compatibility;
mod dependencies;
mod doors;
mod http_client;
mod ratchets;
mod signature_vectors;
mod tidy;
