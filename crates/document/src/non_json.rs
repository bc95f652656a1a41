//! Values of BSON kinds that JSON lacks: kept byte for byte, and shown as JSON by one fixed rule.
//!
//! | BSON | as JSON |
//! |---|---|
//! | double that is not finite | `{"$numberDouble":"NaN"}`, `"Infinity"`, `"-Infinity"` |
//! | decimal128 | `{"$numberDecimal":"1.10"}`, trailing zeros kept |
//! | ObjectId | `{"$oid":"…24 lower-case hex digits…"}` |
//! | date | `{"$date":"2026-11-22T01:02:03.004Z"}` in the years 1970 to 9999, milliseconds only if there are any; else `{"$date":{"$numberLong":"…"}}` |
//! | binary | `{"$binary":{"base64":"…","subType":"00"}}` |
//! | timestamp | `{"$timestamp":{"t":1,"i":2}}` |
//! | regular expression | `{"$regularExpression":{"pattern":"…","options":"im"}}` |
//! | code, code with scope | `{"$code":"…"}`, `{"$code":"…","$scope":{…}}` |
//! | symbol, DBPointer | `{"$symbol":"…"}`, `{"$dbPointer":{"$ref":"…","$id":{"$oid":"…"}}}` |
//! | MinKey, MaxKey, undefined | `{"$minKey":1}`, `{"$maxKey":1}`, `{"$undefined":true}` |
//!
//! All code over JSON values (queries, the index, sizes, orders) sees exactly that object. The body keeps the
//! value: APIs with BSON read it back as it was written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::body::Body;
use crate::bson_writer::{BsonWriter, Slot, kind};
use crate::raw::{NonJson, RawDocument, read_string};

impl NonJson<'_> {
    /// The nearest double of a finite decimal.
    pub fn finite_decimal(&self) -> Option<f64> {
        if self.kind != kind::DECIMAL128 {
            return None;
        }
        match decimal_parts(u128::from_le_bytes(*self.bytes.first_chunk()?)) {
            DecimalParts::Finite { negative, coefficient, exponent } => {
                let sign = if negative { "-" } else { "" };
                format!("{sign}{coefficient}e{exponent}").parse().ok()
            }
            _ => None,
        }
    }

    /// A number of a kind that JSON lacks; for a decimal the nearest double.
    pub fn number(&self) -> Option<f64> {
        match self.kind {
            kind::DOUBLE => Some(f64::from_le_bytes(*self.bytes.first_chunk()?)),
            kind::DECIMAL128 => match decimal_parts(u128::from_le_bytes(*self.bytes.first_chunk()?)) {
                DecimalParts::Nan => Some(f64::NAN),
                DecimalParts::Infinity { negative: true } => Some(f64::NEG_INFINITY),
                DecimalParts::Infinity { negative: false } => Some(f64::INFINITY),
                DecimalParts::Finite { .. } => self.finite_decimal(),
            },
            _ => None,
        }
    }

    /// Levels of objects in its JSON form, without those of a scope.
    pub(crate) fn shown_levels(&self) -> usize {
        match self.kind {
            kind::BINARY | kind::TIMESTAMP | kind::REGEX => 2,
            kind::DB_POINTER => 3,
            kind::DATE => {
                let milliseconds = self.bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
                if milliseconds.is_some_and(|milliseconds| YEARS_SHOWN.contains(&milliseconds)) {
                    1
                } else {
                    2
                }
            }
            _ => 1,
        }
    }

    /// The object that represents it in JSON. Damaged bytes, which no valid body holds, are shown as `{}`.
    pub fn shown(&self) -> Body {
        let mut writer = BsonWriter::with_capacity(64 + self.bytes.len() * 2);
        let length_at = writer.reserve_length();
        let start = writer.out.len();
        if self.write_members(&mut writer).is_none() {
            writer.out.truncate(start);
        }
        writer.end_document(length_at);
        Body::from_writer(writer.out).expect("a value of a body is shorter than the greatest document")
    }

    fn write_members(&self, writer: &mut BsonWriter) -> Option<()> {
        let bytes = self.bytes;
        match self.kind {
            kind::DOUBLE => text(writer, "$numberDouble", double(f64::from_le_bytes(*bytes.first_chunk()?))),
            kind::DECIMAL128 => {
                let bits = u128::from_le_bytes(*bytes.first_chunk()?);
                text(writer, "$numberDecimal", &decimal(bits));
            }
            kind::OBJECT_ID => text(writer, "$oid", &hex(bytes)),
            kind::DATE => write_date(writer, i64::from_le_bytes(*bytes.first_chunk()?)),
            kind::BINARY => {
                let (subtype, content) = bytes.get(4..)?.split_first()?;
                object(writer, "$binary", |writer| {
                    text(writer, "base64", &STANDARD.encode(content));
                    text(writer, "subType", &hex(&[*subtype]));
                });
            }
            kind::TIMESTAMP => {
                let both = u64::from_le_bytes(*bytes.first_chunk()?);
                object(writer, "$timestamp", |writer| {
                    int(writer, "t", (both >> 32) as i64);
                    int(writer, "i", (both & u64::from(u32::MAX)) as i64);
                });
            }
            kind::REGEX => {
                let mut parts = bytes.split(|byte| *byte == 0);
                let (pattern, options) = (utf8(parts.next()?)?, utf8(parts.next()?)?);
                object(writer, "$regularExpression", |writer| {
                    text(writer, "pattern", pattern);
                    text(writer, "options", options);
                });
            }
            kind::CODE => text(writer, "$code", utf8(read_string(bytes)?.0)?),
            kind::SYMBOL => text(writer, "$symbol", utf8(read_string(bytes)?.0)?),
            kind::CODE_WITH_SCOPE => {
                let (code, scope) = read_string(bytes.get(4..)?)?;
                text(writer, "$code", utf8(code)?);
                let slot = writer.member(b"$scope");
                writer.stored(slot, kind::DOCUMENT, scope);
            }
            kind::DB_POINTER => {
                let (name, id) = read_string(bytes)?;
                let name = utf8(name)?;
                object(writer, "$dbPointer", |writer| {
                    text(writer, "$ref", name);
                    object(writer, "$id", |writer| text(writer, "$oid", &hex(id)));
                });
            }
            kind::MIN_KEY => int(writer, "$minKey", 1),
            kind::MAX_KEY => int(writer, "$maxKey", 1),
            kind::UNDEFINED => {
                let slot = writer.member(b"$undefined");
                writer.bool(slot, true);
            }
            _ => return None,
        }
        Some(())
    }
}

impl std::fmt::Debug for NonJson<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&RawDocument::assume_valid(self.shown().as_bytes()), formatter)
    }
}

fn text(writer: &mut BsonWriter, name: &str, value: &str) {
    let slot = writer.member(name.as_bytes());
    writer.string(slot, value);
}

fn int(writer: &mut BsonWriter, name: &str, value: i64) {
    let slot = writer.member(name.as_bytes());
    writer.int(slot, value);
}

fn object(writer: &mut BsonWriter, name: &str, members: impl FnOnce(&mut BsonWriter)) {
    let slot: Slot = writer.member(name.as_bytes());
    let length_at = writer.begin_document(slot, kind::DOCUMENT);
    members(writer);
    writer.end_document(length_at);
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn double(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// Milliseconds of the years 1970 to 9999, of which dates are shown as text.
const YEARS_SHOWN: std::ops::Range<i64> = 0..253_402_300_800_000;

fn write_date(writer: &mut BsonWriter, milliseconds: i64) {
    if YEARS_SHOWN.contains(&milliseconds) {
        return text(writer, "$date", &date(milliseconds));
    }
    object(writer, "$date", |writer| text(writer, "$numberLong", &milliseconds.to_string()));
}

/// In the proleptic Gregorian calendar, from the count of days since 1970 (Howard Hinnant's `civil_from_days`).
fn date(milliseconds: i64) -> String {
    let (day, in_day) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, rest) = (in_day / 1000, in_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if rest > 0 { format!(".{rest:03}") } else { String::new() };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The value of a decimal128.
pub(crate) enum DecimalParts {
    Nan,
    Infinity { negative: bool },
    Finite { negative: bool, coefficient: u128, exponent: i32 },
}

pub(crate) fn decimal_parts(bits: u128) -> DecimalParts {
    const BIAS: i32 = 6176;
    const COEFFICIENT_MAX: u128 = 10u128.pow(34) - 1;
    let negative = bits >> 127 == 1;
    let combination = (bits >> 122) as u32 & 0x1F;
    match combination {
        0x1F => return DecimalParts::Nan,
        0x1E => return DecimalParts::Infinity { negative },
        _ => {}
    }
    // With a leading 11 the coefficient would have more than 34 digits: such an encoding means zero.
    let (biased, coefficient) = match combination >> 3 {
        3 => ((bits >> 111) as i32 & 0x3FFF, 0),
        _ => ((bits >> 113) as i32 & 0x3FFF, bits & ((1 << 113) - 1)),
    };
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    DecimalParts::Finite { negative, coefficient, exponent: biased - BIAS }
}

/// The text of a decimal128 in the type's own form: its digits with all zeros, scientific if plain digits
/// would need more zeros.
fn decimal(bits: u128) -> String {
    let sign = if bits >> 127 == 1 { "-" } else { "" };
    let (exponent, digits) = match decimal_parts(bits) {
        DecimalParts::Nan => return "NaN".to_owned(),
        DecimalParts::Infinity { .. } => return format!("{sign}Infinity"),
        DecimalParts::Finite { coefficient, exponent, .. } => (exponent, coefficient.to_string()),
    };
    let length = i32::try_from(digits.len()).expect("at most 34 digits");
    let scientific = exponent + length - 1;
    if exponent > 0 || scientific < -6 {
        let (first, others) = digits.split_at(1);
        let point = if others.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{others}E{scientific:+}");
    }
    let behind = exponent.unsigned_abs() as usize;
    match digits.len().checked_sub(behind) {
        _ if behind == 0 => format!("{sign}{digits}"),
        Some(before) if before > 0 => format!("{sign}{}.{}", &digits[..before], &digits[before..]),
        _ => format!("{sign}0.{digits:0>behind$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_print_as_the_type_prints_them() {
        let of = |coefficient: u128, exponent: i32| {
            decimal(coefficient | u128::from((exponent + 6176) as u32) << 113)
        };
        for (coefficient, exponent, text) in [
            (0, 0, "0"),
            (110, -2, "1.10"),
            (5, -3, "0.005"),
            (1, -6, "0.000001"),
            (1, -7, "1E-7"),
            (12, 3, "1.2E+4"),
            (0, -2, "0.00"),
            (10u128.pow(34) - 1, 6111, "9.999999999999999999999999999999999E+6144"),
        ] {
            assert_eq!(of(coefficient, exponent), text);
        }
        assert_eq!(decimal(0x1F << 122), "NaN");
        assert_eq!(decimal(0x3E << 122), "-Infinity");
    }

    #[test]
    fn dates_of_all_ages() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_309_323_004), "2026-11-22T01:02:03.004Z");
        assert_eq!(date(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
    }
}
