//! Any bytes as a resume token of a change stream. A token that was read survives being sent again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardlake_mongo::Token;
use shardlake_mql::Document;

fuzz_target!(|input: &[u8]| {
    let text: String = input.iter().map(|byte| format!("{byte:02X}")).collect();
    let Ok(token) = Token::read(&Document::one("_data", text.as_str())) else { return };
    let again = Token::read(&token.document()).expect("its own");
    assert_eq!(again.containers, token.containers);
});
