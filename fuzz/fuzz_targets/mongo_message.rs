//! Any bytes as a message of the MongoDB protocol. What is asserted is a file of the gateway's tests, so that it is compiled and run
//! with them.
#![no_main]

#[path = "../../crates/gateway-mongo/tests/it/any_message.rs"]
mod any_message;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    any_message::check(input);
});
