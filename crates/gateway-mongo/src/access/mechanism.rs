//! The two hash functions of SCRAM, and the values computed with them.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::errors::{Result, code, error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Sha1,
    Sha256,
}

/// HMAC, PBKDF2 and the bare hash over one hash function.
macro_rules! with_hash {
    ($hash:ty, $mac:ident, $derive:ident, $digest:ident) => {
        fn $mac(key: &[u8], text: &[u8]) -> Vec<u8> {
            let mut mac = Hmac::<$hash>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(text);
            mac.finalize().into_bytes().to_vec()
        }

        /// One block of PBKDF2, which is all that SCRAM needs.
        fn $derive(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
            let keyed = Hmac::<$hash>::new_from_slice(password).expect("HMAC takes keys of any length");
            let mut mac = keyed.clone();
            mac.update(salt);
            mac.update(&1u32.to_be_bytes());
            let mut block = mac.finalize().into_bytes();
            let mut derived = block.to_vec();
            for _ in 1..iterations {
                let mut mac = keyed.clone();
                mac.update(&block);
                block = mac.finalize().into_bytes();
                derived.iter_mut().zip(&block).for_each(|(sum, byte)| *sum ^= byte);
            }
            derived
        }

        fn $digest(text: &[u8]) -> Vec<u8> {
            <$hash>::digest(text).to_vec()
        }
    };
}

with_hash!(Sha1, mac_sha1, derive_sha1, digest_sha1);
with_hash!(Sha256, mac_sha256, derive_sha256, digest_sha256);

impl Mechanism {
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    pub fn of_name(name: &str) -> Result<Mechanism> {
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
        found.ok_or_else(|| {
            error!(
                code::MECHANISM_UNAVAILABLE,
                "Received authentication for mechanism {name} which is not enabled: use SCRAM-SHA-256 or SCRAM-SHA-1"
            )
        })
    }

    pub fn iterations(self) -> u32 {
        match self {
            Mechanism::Sha1 => 10_000,
            Mechanism::Sha256 => 15_000,
        }
    }

    pub fn salt_size_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 16,
            Mechanism::Sha256 => 28,
        }
    }

    pub fn mac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => mac_sha1(key, text),
            Mechanism::Sha256 => mac_sha256(key, text),
        }
    }

    pub fn digest(self, text: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => digest_sha1(text),
            Mechanism::Sha256 => digest_sha256(text),
        }
    }

    pub fn derive(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => derive_sha1(password, salt, iterations),
            Mechanism::Sha256 => derive_sha256(password, salt, iterations),
        }
    }

    /// The password as the mechanism takes it.
    pub fn prepare(self, user: &str, password: &str) -> Result<Vec<u8>> {
        match self {
            Mechanism::Sha1 => {
                let hash = Md5::digest(format!("{user}:mongo:{password}"));
                Ok(hash.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
            }
            Mechanism::Sha256 => {
                stringprep::saslprep(password).map(|prepared| prepared.as_bytes().to_vec()).map_err(|_| {
                    error!(code::FORBIDDEN_PASSWORD, "the password has characters that SASLprep forbids")
                })
            }
        }
    }
}
