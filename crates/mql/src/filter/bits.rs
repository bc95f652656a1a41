//! `$bitsAllSet` and its kin.

use crate::decimal::Rounding;
use crate::error::{Result, fail};
use crate::value::Value;

/// A condition on bits.
#[derive(Debug)]
pub(super) struct Bits {
    positions: Positions,
    set: bool,
    all: bool,
}

impl Bits {
    pub fn parse(name: &str, operand: &Value) -> Result<Bits> {
        let (set, all) = match name {
            "$bitsAllSet" => (true, true),
            "$bitsAllClear" => (false, true),
            "$bitsAnySet" => (true, false),
            _ => (false, false),
        };
        Ok(Bits { positions: positions(name, operand)?, set, all })
    }

    pub fn holds_for(&self, value: &Value) -> bool {
        let test: Box<dyn Fn(u64) -> bool> = match value {
            Value::Binary(subtype, bytes) => {
                let all = Value::binary_bytes(*subtype, bytes);
                Box::new(move |at: u64| {
                    all.get((at / 8) as usize).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
                })
            }
            value if value.is_number() => match integer(value) {
                // Bits above the highest are those of the sign.
                Some(number) => Box::new(move |at: u64| number >> at.min(63) & 1 == 1),
                None => return false,
            },
            _ => return false,
        };
        let mut results = self.positions.iter().map(|at| test(at) == self.set);
        if self.all { results.all(|holds| holds) } else { results.any(|holds| holds) }
    }
}

/// The tested bits. A mask has up to eight times as many positions as bytes, so they are not listed.
#[derive(Debug, Clone)]
enum Positions {
    Listed(Vec<u64>),
    Mask(Vec<u8>),
}

impl Positions {
    fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Positions::Listed(positions) => Box::new(positions.iter().copied()),
            Positions::Mask(bytes) => Box::new(
                (0..bytes.len() as u64 * 8).filter(|at| bytes[(at / 8) as usize] >> (at % 8) & 1 == 1),
            ),
        }
    }
}

/// The integer whose bits are tested. A decimal loses its fraction; a double with a fraction has no bits.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Decimal(number) => Value::Decimal(number.to_whole(Rounding::Down)).to_i64_exact(),
        value => value.to_i64_exact(),
    }
}

fn positions(name: &str, operand: &Value) -> Result<Positions> {
    match operand {
        Value::Array(items) => {
            Ok(Positions::Listed(items.iter().map(|item| position(name, item)).collect::<Result<_>>()?))
        }
        Value::Binary(subtype, bytes) => Ok(Positions::Mask(Value::binary_bytes(*subtype, bytes).to_vec())),
        value if value.is_number() => match value.to_i64_exact() {
            Some(mask) if mask >= 0 => Ok(Positions::Mask(mask.to_le_bytes().to_vec())),
            Some(mask) => fail!(9, "Expected a non-negative number in: {name}: {mask}"),
            None => fail!(9, "Expected an integer: {name}: {value}"),
        },
        other => fail!(2, "{name} takes an Array, a number, or a BinData but received: {other}"),
    }
}

fn position(name: &str, item: &Value) -> Result<u64> {
    if !item.is_number() {
        fail!(2, "Failed to parse bit position. Expected a number in: {name}: {item}");
    }
    match item.to_i32_exact() {
        Some(at) if at >= 0 => Ok(at as u64),
        Some(at) => fail!(2, "Failed to parse bit position. Expected a non-negative number in: {name}: {at}"),
        None => fail!(2, "Failed to parse bit position. Expected an integer: {name}: {item}"),
    }
}
