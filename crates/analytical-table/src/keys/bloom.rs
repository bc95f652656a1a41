//! Bloom filter over key hashes: ten bits a row, seven of them set.

use super::KeyHash;

const BITS_PER_ROW: usize = 10;
const PROBES: u64 = 7;

pub fn build<'a>(rows: usize, hashes: impl Iterator<Item = &'a KeyHash>) -> Vec<u8> {
    let mut bits = vec![0; (rows * BITS_PER_ROW).div_ceil(8)];
    for hash in hashes {
        for bit in probes(hash, bits.len()) {
            bits[bit / 8] |= 1 << (bit % 8);
        }
    }
    bits
}

pub fn may_contain(bits: &[u8], hash: &KeyHash) -> bool {
    probes(hash, bits.len()).all(|bit| bits[bit / 8] & (1 << (bit % 8)) != 0)
}

/// The halves of the hash are independent, so their sums serve as further hashes.
fn probes(hash: &KeyHash, bytes: usize) -> impl Iterator<Item = usize> + use<> {
    let half = |at: usize| hash[at..at + 8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (start, step, bits) = (half(0), half(8) | 1, bytes as u64 * 8);
    let count = if bits == 0 { 0 } else { PROBES };
    (0..count).map(move |number| (start.wrapping_add(step.wrapping_mul(number)) % bits) as usize)
}
