//! Any bytes as a token that a client sends back. The assertions are a file of the account's tests, which compile and run them.
#![no_main]

#[path = "../../crates/account/tests/it/any_token.rs"]
#[allow(dead_code)] // each target runs one of its functions
mod any_token;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    any_token::query_position(input);
});
