//! Sizes as people write them: `512`, `64KiB`, `256MiB`, `2GiB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// A number of bytes. A bare number counts bytes; `KB`, `MB` and `GB` mean the same as `KiB`, `MiB` and `GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 10] = [
    ("gib", 1 << 30),
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("gb", 1 << 30),
    ("mb", 1 << 20),
    ("kb", 1 << 10),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("k", 1 << 10),
    ("b", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| lower.strip_suffix(unit).map(|digits| (digits.trim_end(), *factor)))
            .unwrap_or((&lower, 1));
        let number: Option<u64> = digits.parse().ok();
        number.and_then(|number| number.checked_mul(factor)).map(ByteSize).ok_or_else(|| {
            format!("'{text}' is no size: write a whole number of bytes, or one with KiB, MiB or GiB")
        })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS[..3].iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        match unit {
            Some((unit, factor)) => {
                write!(f, "{}{}iB", self.0 / factor, unit[..1].to_ascii_uppercase())
            }
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(ByteSize(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64KiB", 65_536), ("256 mib", 1 << 28), ("2G", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "1.5GiB", "-1", "99999999999GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(ByteSize(1 << 28).to_string(), "256MiB");
        assert_eq!(ByteSize(1000).to_string(), "1000");
    }
}
