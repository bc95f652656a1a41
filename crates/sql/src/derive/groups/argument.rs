//! Arguments of aggregates, as far as groups count them.
//!
//! The log of the source has the arguments of versions that ended, so they are short: long texts are hashes
//! there. Equal arguments have equal bytes.

use sha2::{Digest, Sha256};

use crate::value::aggregate::{AggregateFunction, identity};
use crate::value::datum::{Datum, DatumType};

/// Longer extremes are hashes in the log.
const EXTREME_BYTES_MAX: usize = 64;
pub(super) const HASH_BYTES: usize = 16;

/// One row's argument of one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// Undefined; for COUNTIF anything but true.
    Nothing,
    /// A value of which only the presence counts.
    Counted,
    /// Of SUM and AVG.
    Number(f64),
    /// Without a result while a group has it: no number of SUM and AVG, an array or object of MIN and MAX.
    Poison,
    /// Of MIN and MAX, in the ordered encoding of values.
    Extreme(Vec<u8>),
    /// A long extreme, from the log.
    Hashed([u8; HASH_BYTES]),
}

/// The value of a group does not follow from its state any more: the group is to be counted anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl Argument {
    pub(super) fn of(function: AggregateFunction, value: &Datum<'_>) -> Argument {
        if value.is_undefined() {
            return Argument::Nothing;
        }
        match function {
            AggregateFunction::Count => Argument::Counted,
            AggregateFunction::CountIf if matches!(value, Datum::Bool(true)) => Argument::Counted,
            AggregateFunction::CountIf => Argument::Nothing,
            AggregateFunction::Sum | AggregateFunction::Average => match value {
                // Both zeros are one.
                Datum::Number(number) => Argument::Number(number.as_f64() + 0.0),
                _ => Argument::Poison,
            },
            AggregateFunction::Min | AggregateFunction::Max => match value.datum_type() {
                DatumType::Array | DatumType::Object => Argument::Poison,
                _ => Argument::Extreme(identity(&value.to_value())),
            },
            AggregateFunction::MakeList | AggregateFunction::MakeSet => {
                unreachable!("other aggregates do not pass the refusals")
            }
        }
    }

    /// `kind u8 | content`, for the log.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Argument::Nothing => out.push(0),
            Argument::Counted => out.push(1),
            Argument::Number(number) => {
                out.push(2);
                out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Argument::Poison => out.push(3),
            Argument::Extreme(bytes) if bytes.len() <= EXTREME_BYTES_MAX => {
                out.extend_from_slice(&[4, bytes.len() as u8]);
                out.extend_from_slice(bytes);
            }
            Argument::Extreme(bytes) => {
                out.push(5);
                out.extend_from_slice(&hash_of(bytes));
            }
            Argument::Hashed(hash) => {
                out.push(5);
                out.extend_from_slice(hash);
            }
        }
    }

    /// Reads one argument from the front of `bytes`; `None` where they are malformed.
    pub fn read<'b>(bytes: &mut &'b [u8]) -> Option<Argument> {
        let (kind, rest): (_, &'b [u8]) = bytes.split_first()?;
        let (argument, rest) = match kind {
            0 => (Argument::Nothing, rest),
            1 => (Argument::Counted, rest),
            2 => {
                let (bits, rest) = rest.split_first_chunk()?;
                (Argument::Number(f64::from_bits(u64::from_le_bytes(*bits))), rest)
            }
            3 => (Argument::Poison, rest),
            4 => {
                let (length, rest) = rest.split_first()?;
                let (bytes, rest) = rest.split_at_checked(usize::from(*length))?;
                (Argument::Extreme(bytes.to_vec()), rest)
            }
            5 => {
                let (hash, rest) = rest.split_first_chunk()?;
                (Argument::Hashed(*hash), rest)
            }
            _ => return None,
        };
        *bytes = rest;
        Some(argument)
    }

    /// Whether it is the argument with these bytes.
    pub(super) fn is_extreme(&self, bytes: &[u8]) -> bool {
        match self {
            Argument::Extreme(own) => own == bytes,
            Argument::Hashed(hash) => bytes.len() > EXTREME_BYTES_MAX && *hash == hash_of(bytes),
            _ => false,
        }
    }
}

fn hash_of(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let hash = Sha256::digest(bytes);
    hash[..HASH_BYTES].try_into().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_document::Value;

    #[test]
    fn arguments_survive_and_cut_ones_are_refused() {
        let long = Value::String("x".repeat(100));
        let all = [
            Argument::Nothing,
            Argument::Counted,
            Argument::Number(-0.1),
            Argument::Poison,
            Argument::of(AggregateFunction::Min, &Datum::from_tree(&Value::String("é".into()))),
            Argument::of(AggregateFunction::Max, &Datum::from_tree(&long)),
        ];
        for argument in all {
            let mut bytes = Vec::new();
            argument.write(&mut bytes);
            let mut rest = &bytes[..];
            let read = Argument::read(&mut rest).expect("its own");
            assert!(rest.is_empty());
            match &argument {
                Argument::Extreme(own) if own.len() > EXTREME_BYTES_MAX => assert!(read.is_extreme(own)),
                _ => assert_eq!(read, argument),
            }
            for end in 0..bytes.len() {
                assert_eq!(Argument::read(&mut &bytes[..end]), None, "cut at {end}");
            }
        }
    }

    #[test]
    fn zeros_are_one_number() {
        let zero = Argument::of(AggregateFunction::Sum, &Datum::from_tree(&Value::Double(-0.0)));
        let Argument::Number(zero) = zero else { panic!("a number") };
        assert_eq!(zero.to_bits(), 0);
    }
}
