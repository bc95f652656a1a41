//! A factor of at most 1 by which limits shrink: an exact fraction, so that every part computes the same numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Written as `0.001` or `1/1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct LimitScale {
    numerator: u64,
    denominator: u64,
}

/// Decimal places that are read; a billionth of 20 GB is 21 bytes.
const PLACES_MAX: usize = 9;

impl Default for LimitScale {
    fn default() -> Self {
        LimitScale { numerator: 1, denominator: 1 }
    }
}

impl LimitScale {
    /// `None` unless `0 < numerator <= denominator`.
    pub fn new(numerator: u64, denominator: u64) -> Option<LimitScale> {
        (0 < numerator && numerator <= denominator).then_some(LimitScale { numerator, denominator })
    }

    /// A limit at this scale, rounded down but never to nothing.
    pub fn of(self, limit: u64) -> u64 {
        let scaled = u128::from(limit) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).expect("a part of a number is no larger").max(1)
    }
}

impl FromStr for LimitScale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once('/') {
            Some((numerator, denominator)) => {
                numerator.trim().parse().ok().zip(denominator.trim().parse().ok())
            }
            None => parse_decimal(text),
        };
        parsed.and_then(|(numerator, denominator)| LimitScale::new(numerator, denominator)).ok_or_else(|| {
            format!("'{text}' is no scale: give a number above 0 and at most 1, such as 0.001 or 1/1000")
        })
    }
}

/// Digits, perhaps with a point and up to nine more, as a fraction.
fn parse_decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(places) || places.len() > PLACES_MAX {
        return None;
    }
    let denominator = 10u64.pow(places.len() as u32);
    let numerator: u64 = format!("{whole}{places}").parse().ok()?;
    Some((numerator, denominator))
}

impl fmt::Display for LimitScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl From<LimitScale> for String {
    fn from(scale: LimitScale) -> String {
        scale.to_string()
    }
}

/// A settings file may give a number or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(u64),
    Number(f64),
}

impl TryFrom<Written> for LimitScale {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Whole(number) => number.to_string().parse(),
            // The shortest text that reads as this number is the written text.
            Written::Number(number) => number.to_string().parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_exact_fractions() {
        let parse = |text: &str| text.parse::<LimitScale>();
        assert_eq!(parse("0.001").expect("decimal").of(50 << 30), (50 << 30) / 1000);
        assert_eq!(parse("1/3").expect("fraction").of(10), 3);
        assert_eq!(parse("1").expect("whole"), LimitScale::default());
        assert_eq!(parse("1.000").expect("whole").of(7), 7);
        assert_eq!(parse(".5").expect("no zero").of(7), 3);
        assert_eq!(parse("0.000000001").expect("small").of(10), 1, "never nothing");
        for wrong in ["", "0", "0.0", "2", "1.1", "-1", "1/0", "0/5", "a", "1e-3", "0.0000000001", "2/1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_may_hold_numbers_or_texts() {
        let read = |json: &str| serde_json::from_str::<LimitScale>(json);
        for json in ["0.001", "\"0.001\"", "\"1/1000\""] {
            assert_eq!(read(json).expect(json).of(1000), 1, "{json}");
        }
        let written = serde_json::to_string(&LimitScale::new(3, 4)).expect("a text");
        assert_eq!(read(&written).expect("read back"), LimitScale::new(3, 4).expect("at most 1"));
        assert!(read("1.5").is_err());
    }
}
