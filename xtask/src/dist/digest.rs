//! Digests of contents as texts.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// SHA-256 in hex digits.
pub fn hex_digest(content: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        write!(digits, "{byte:02x}").expect("writing to a string cannot fail");
    }
    digits
}
