//! Randomness from the operating system or from a seed, and the 16-byte identifiers made of it.
#![allow(clippy::disallowed_methods)] // the one place that asks the operating system for randomness

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Randomness source of the program. Cloning a seeded source shares its state.
#[derive(Debug, Clone, Default)]
pub enum Random {
    #[default]
    System,
    /// SplitMix64 over a counter: the same seed gives the same sequence.
    Seeded(Arc<AtomicU64>),
}

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Random::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    pub fn u64(&self) -> u64 {
        match self {
            Random::System => {
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).expect("the operating system provides randomness");
                u64::from_le_bytes(bytes)
            }
            Random::Seeded(state) => {
                const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
                let mut z = state.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                z ^ (z >> 31)
            }
        }
    }

    /// Uniform in `0..bound`; `bound` must not be zero.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random member");
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills a buffer, for keys and other secrets.
    pub fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// A version 4 UUID. It is unique and cannot be guessed, but it is no key: its bytes lay in memory before they were asked for.
    pub fn guid(&self) -> Guid {
        let mut bytes = match self {
            Random::System => GUIDS_AHEAD.with_borrow_mut(GuidsAhead::next),
            Random::Seeded(_) => {
                let mut bytes = [0; 16];
                self.fill(&mut bytes);
                bytes
            }
        };
        bytes[6] = (bytes[6] & 0x0F) | 0x40;
        bytes[8] = (bytes[8] & 0x3F) | 0x80;
        Guid(bytes)
    }
}

/// Number of identifiers that each call to the operating system provides random bytes for: one call
/// per identifier would cost a write more than its place in the log.
const GUIDS_TAKEN: usize = 64;

thread_local! {
    static GUIDS_AHEAD: RefCell<GuidsAhead> =
        const { RefCell::new(GuidsAhead { bytes: [[0; 16]; GUIDS_TAKEN], left: 0 }) };
}

/// Unused rest of the bytes that a thread has taken. A thread is never copied: workers are programs
/// of their own, not forks.
struct GuidsAhead {
    bytes: [[u8; 16]; GUIDS_TAKEN],
    left: usize,
}

impl GuidsAhead {
    /// Hands each block out once, and keeps no copy of it.
    fn next(&mut self) -> [u8; 16] {
        if self.left == 0 {
            let bytes = self.bytes.as_flattened_mut();
            getrandom::fill(bytes).expect("the operating system provides randomness");
            self.left = GUIDS_TAKEN;
        }
        self.left -= 1;
        std::mem::take(&mut self.bytes[self.left])
    }
}

/// A 16-byte identifier, printed as `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The 36 ASCII characters of the usual text form.
    pub fn to_ascii(self) -> [u8; 36] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [b'-'; 36];
        let mut at = 0;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                at += 1;
            }
            out[at] = HEX[usize::from(byte >> 4)];
            out[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        out
    }

    /// Reads the text form, with or without hyphens.
    pub fn parse(text: &str) -> Option<Guid> {
        let mut bytes = [0; 16];
        let mut digits = text.bytes().filter(|byte| *byte != b'-');
        for byte in &mut bytes {
            let high = char::from(digits.next()?).to_digit(16)?;
            let low = char::from(digits.next()?).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        digits.next().is_none().then_some(Guid(bytes))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ascii = self.to_ascii();
        f.write_str(std::str::from_utf8(&ascii).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_survives_its_text_form() {
        let guid = Random::seeded(7).guid();
        assert_eq!(Guid::parse(&guid.to_string()), Some(guid));
        assert_eq!(guid.to_string().len(), 36);
        assert_eq!(guid.to_string().as_bytes()[14], b'4');
        assert_eq!(Guid::parse("not a guid"), None);
        assert_eq!(Guid::parse(&format!("{guid}0")), None);
    }

    #[test]
    fn identifiers_of_many_threads_are_all_different() {
        const EACH: usize = 5 * GUIDS_TAKEN + 1;
        let make = || (0..EACH).map(|_| Random::System.guid()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let made: Vec<Guid> =
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect();
        let different: std::collections::HashSet<Guid> = made.iter().copied().collect();
        assert_eq!(different.len(), 4 * EACH);
        // Each bit is set in about half of them, except version and variant: no bit is always zero.
        for bit in (0..128).filter(|bit| !matches!(bit, 48..=51 | 64..=65)) {
            let set = made.iter().filter(|guid| guid.0[bit / 8] & (0x80 >> (bit % 8)) != 0).count();
            assert!((made.len() / 3..made.len() * 2 / 3).contains(&set), "bit {bit}: {set}");
        }
    }

    #[test]
    fn a_seed_repeats_its_sequence_and_bounds_hold() {
        let (a, b) = (Random::seeded(1), Random::seeded(1));
        for _ in 0..1000 {
            let value = a.below(10);
            assert_eq!(value, b.below(10));
            assert!(value < 10);
        }
    }
}
