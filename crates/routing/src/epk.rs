//! Effective partition keys: the hash that decides an item's partition (wire.md §6).
//!
//! Version 2 is 16 bytes; its top two bits are clear. A hierarchical key is one such hash per
//! level, concatenated, so that a prefix of the key is a prefix of the hash. Version 1 is a 32-bit
//! hash written as an order-preserving number, followed by the key's own components.

use std::fmt;

use serde::{Deserialize, Serialize};
use shardlake_model::{KeyComponent, KeyKind, PartitionKey, PartitionKeyDefinition};
use shardlake_stdx::{murmur3_32, murmur3_128};

/// Characters (UTF-16 units) of a string that version 1 hashes.
const V1_STRING_UNITS: usize = 100;
/// Bytes of a string that version 1 appends to the hash.
const V1_STRING_BYTES: usize = 100;

/// A position in the hash space, compared as bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epk(pub Vec<u8>);

impl Epk {
    /// Upper-case hexadecimal.
    pub fn to_hex(&self) -> String {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let digits =
            self.0.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        digits.map(char::from).collect()
    }

    /// Either letter case; `None` for anything that is not an even number of digits.
    pub fn from_hex(text: &str) -> Option<Epk> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
        if rest.is_empty() { pairs.iter().map(byte).collect::<Option<_>>().map(Epk) } else { None }
    }
}

impl From<Vec<u8>> for Epk {
    fn from(bytes: Vec<u8>) -> Self {
        Epk(bytes)
    }
}

impl fmt::Debug for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// The hash of a full key, or of a prefix of a hierarchical one.
pub fn effective_partition_key(definition: &PartitionKeyDefinition, key: &PartitionKey) -> Epk {
    match (definition.kind, definition.version()) {
        (KeyKind::MultiHash, _) => {
            let levels = key.0.iter().flat_map(|component| hash_v2(std::slice::from_ref(component)));
            Epk(levels.collect())
        }
        (_, 1) => hash_v1(&key.0),
        _ => Epk(hash_v2(&key.0).to_vec()),
    }
}

fn push_component(out: &mut Vec<u8>, component: &KeyComponent, string_end: u8) {
    match component {
        KeyComponent::Undefined => out.push(0),
        KeyComponent::Null => out.push(1),
        KeyComponent::Bool(false) => out.push(2),
        KeyComponent::Bool(true) => out.push(3),
        KeyComponent::Number(number) => {
            out.push(5);
            out.extend_from_slice(&number.to_le_bytes());
        }
        KeyComponent::String(text) => {
            out.push(8);
            out.extend_from_slice(text.as_bytes());
            out.push(string_end);
        }
    }
}

fn hash_v2(components: &[KeyComponent]) -> [u8; 16] {
    let mut bytes = Vec::with_capacity(64);
    components.iter().for_each(|component| push_component(&mut bytes, component, 0xFF));
    let (low, high) = murmur3_128(&bytes);
    let mut hash = [0; 16];
    // Little-endian low then high, reversed: the same as big-endian high then low.
    hash[..8].copy_from_slice(&high.to_be_bytes());
    hash[8..].copy_from_slice(&low.to_be_bytes());
    hash[0] &= 0x3F;
    hash
}

fn hash_v1(components: &[KeyComponent]) -> Epk {
    let truncated: Vec<KeyComponent> = components
        .iter()
        .map(|component| match component {
            KeyComponent::String(text) => KeyComponent::String(first_units(text, V1_STRING_UNITS).to_owned()),
            other => other.clone(),
        })
        .collect();
    let mut bytes = Vec::with_capacity(64);
    truncated.iter().for_each(|component| push_component(&mut bytes, component, 0));
    let mut out = Vec::with_capacity(32);
    push_binary_number(&mut out, f64::from(murmur3_32(&bytes)));
    truncated.iter().for_each(|component| push_binary(&mut out, component));
    Epk(out)
}

/// The longest start of a text that takes at most `units` UTF-16 units.
fn first_units(text: &str, units: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.len_utf16();
        if used > units {
            return &text[..at];
        }
    }
    text
}

/// The form in which version 1 writes numbers of the hash space: order-preserving, seven bits a byte after the first.
pub(crate) fn push_binary_number(out: &mut Vec<u8>, number: f64) {
    let bits = number.to_bits();
    let ordered = if bits < 1 << 63 { bits ^ (1 << 63) } else { (!bits).wrapping_add(1) };
    out.push(5);
    out.push((ordered >> 56) as u8);
    let mut rest = ordered << 8;
    if rest == 0 {
        out.push(0);
        return;
    }
    while rest != 0 {
        let group = (rest >> 56) as u8;
        rest <<= 7;
        // The low bit shows whether another group follows.
        out.push(if rest == 0 { group & 0xFE } else { group | 1 });
    }
}

/// The number that bytes begin with, if they do; a bound may have lost its last zero bytes.
pub(crate) fn binary_number(bytes: &[u8]) -> Option<f64> {
    let (first, groups) = bytes.strip_prefix(&[5])?.split_first()?;
    let mut ordered = u64::from(*first) << 56;
    for (place, group) in groups.iter().take(8).enumerate() {
        ordered |= u64::from(group >> 1) << (49 - 7 * place as u32);
        if group & 1 == 0 {
            break;
        }
    }
    let bits = if ordered >= 1 << 63 { ordered ^ (1 << 63) } else { !(ordered.wrapping_sub(1)) };
    Some(f64::from_bits(bits))
}

fn push_binary(out: &mut Vec<u8>, component: &KeyComponent) {
    match component {
        KeyComponent::Undefined => out.push(0),
        KeyComponent::Null => out.push(1),
        KeyComponent::Bool(false) => out.push(2),
        KeyComponent::Bool(true) => out.push(3),
        KeyComponent::Number(number) => push_binary_number(out, *number),
        KeyComponent::String(text) => {
            out.push(8);
            let bytes = text.as_bytes();
            let is_short = bytes.len() <= V1_STRING_BYTES;
            let taken = if is_short { bytes } else { &bytes[..V1_STRING_BYTES + 1] };
            out.extend(taken.iter().map(|byte| byte.saturating_add(1)));
            if is_short {
                out.push(0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
