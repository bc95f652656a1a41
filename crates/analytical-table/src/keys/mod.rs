//! Key files: from the ordinal and LSN of an item's version to its row in a data file.
//!
//! Derived from data files and always rebuilt when missing or damaged. The hash is keyed, so clients
//! cannot choose items whose hashes are equal.

mod bloom;
mod file;

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;

pub use file::{KeyIndex, encode};

/// First half of the HMAC of an ordinal and an LSN.
pub type KeyHash = [u8; 16];

#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    pub fn new(secret: &[u8]) -> KeyHasher {
        KeyHasher(Hmac::new_from_slice(secret).expect("HMAC has keys of any length"))
    }

    pub fn hash(&self, ordinal: u64, lsn: u64) -> KeyHash {
        let mut mac = self.0.clone();
        mac.update(&ordinal.to_le_bytes());
        mac.update(&lsn.to_le_bytes());
        let whole = mac.finalize().into_bytes();
        let mut hash = [0; 16];
        hash.copy_from_slice(&whole[..16]);
        hash
    }
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher")
    }
}
