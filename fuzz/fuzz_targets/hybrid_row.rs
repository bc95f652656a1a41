//! Any bytes as a HybridRow batch or its answer. The assertions are a file of the crate's tests, which compile and run them.
//!
//! The second directory holds recorded bodies of the .NET SDK, and nothing is written into it:
//! `cargo xtask fuzz hybrid_row fuzz/corpus/hybrid_row crates/hybrid-row/tests/recorded`
#![no_main]

#[path = "../../crates/hybrid-row/tests/it/any_bytes.rs"]
mod any_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    any_bytes::operations(input);
    any_bytes::results(input);
    // Behind a checksum, which the fuzzer does not find.
    let sealed = any_bytes::sealed(input);
    any_bytes::operations(&sealed);
    any_bytes::results(&sealed);
});
