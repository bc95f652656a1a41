//! The 128-bit structural hash by which the service and its SDKs know distinct values.
//!
//! Equal values have equal hashes in any order of their members; undefined members and elements do not count, though an
//! undefined element still has its position. Each value is hashed under a seed: the root's, its position's or its name's.
//! Integers that a double cannot hold are hashed as a double with 16 bits more.

use shardlake_document::Value;
use shardlake_stdx::murmur3_128_seeded;

/// A hash as one number, high half first.
pub type DistinctHash = u128;

const ROOT: u128 = halves(0xbfc2_359e_afc0_e2b7, 0x8846_e002_84c4_cf1f);
const NULL: u128 = halves(0x1380_f68b_b3b0_cfe4, 0x156c_918b_f564_ee48);
const FALSE: u128 = halves(0xc1be_517f_e893_b40c, 0xe9fc_8a4c_531c_d0dd);
const TRUE: u128 = halves(0xf86d_4abf_9a41_2e74, 0x7884_8836_5c8a_985d);
const NUMBER: u128 = halves(0x2400_e8b8_94ce_9c2a, 0x790b_e1ea_bd7b_9481);
const STRING: u128 = halves(0x61f5_3f0a_4420_4cfb, 0x0948_1be8_ef4b_56dd);
const ARRAY: u128 = halves(0xfa57_3b01_4c4d_c18e, 0xa014_512c_858e_b115);
const OBJECT: u128 = halves(0x77b2_85ac_511a_ef30, 0x3dcf_1872_4582_2449);
const ELEMENT: u128 = halves(0xfe05_7204_216d_b999, 0x5b1c_c317_8bd9_c593);
const MEMBER: u128 = halves(0xc915_dde0_5849_2a8a, 0x7c8b_e2eb_a72e_4634);

const fn halves(low: u64, high: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

pub fn distinct_hash(value: &Value) -> DistinctHash {
    hash_under(value, ROOT)
}

fn murmur(bytes: &[u8], seed: u128) -> u128 {
    let (low, high) = murmur3_128_seeded(bytes, (seed as u64, (seed >> 64) as u64));
    halves(low, high)
}

fn hash_under(value: &Value, seed: u128) -> u128 {
    let of_type = |kind: u128| murmur(&kind.to_le_bytes(), seed);
    match value {
        Value::Undefined => seed,
        Value::Null => of_type(NULL),
        Value::Bool(false) => of_type(FALSE),
        Value::Bool(true) => of_type(TRUE),
        Value::Int(number) => murmur(&extended_double(*number), of_type(NUMBER)),
        // Zeros are equal.
        Value::Double(number) => murmur(&bytes_of_double(*number + 0.0, 0), of_type(NUMBER)),
        Value::String(text) => murmur(text.as_bytes(), of_type(STRING)),
        Value::Array(elements) => hash_elements(elements, of_type(ARRAY)),
        Value::Object(members) => hash_members(members, of_type(OBJECT)),
    }
}

fn hash_elements(elements: &[Value], start: u128) -> u128 {
    let defined = elements.iter().enumerate().filter(|(_, element)| !element.is_undefined());
    defined.fold(start, |hash, (position, element)| {
        let element = hash_under(element, ELEMENT.wrapping_add(position as u128));
        murmur(&element.to_le_bytes(), hash)
    })
}

fn hash_members(members: &[(String, Value)], start: u128) -> u128 {
    let name_seed = murmur(&STRING.to_le_bytes(), MEMBER);
    let defined = members.iter().filter(|(_, member)| !member.is_undefined());
    let together = defined.fold(0, |together, (name, member)| {
        together ^ hash_under(member, murmur(name.as_bytes(), name_seed))
    });
    if together == 0 { start } else { murmur(&together.to_le_bytes(), start) }
}

fn bytes_of_double(value: f64, more: u16) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..].copy_from_slice(&more.to_le_bytes());
    bytes
}

/// An integer as a double, and the at most ten bits that do not fit its fraction, at the top of 16.
fn extended_double(value: i64) -> [u8; 10] {
    let magnitude = value.unsigned_abs();
    let highest = 63 - i64::from(magnitude.leading_zeros().min(63));
    let width = highest - i64::from(magnitude.trailing_zeros());
    if value == i64::MIN || highest <= 52 || width <= 52 {
        return bytes_of_double(value as f64, 0);
    }
    let fraction = (magnitude << (62 - highest)) & ((1 << 62) - 1);
    let sign = if value < 0 { 1 << 63 } else { 0 };
    let bits = sign | ((highest as u64 + 1023) << 52) | (fraction >> 10);
    bytes_of_double(f64::from_bits(bits), ((fraction & 0x3FF) as u16) << 6)
}
