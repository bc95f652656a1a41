//! Decimals as text, by the rules of the BSON decimal128 specification.

use super::{Big, DIGITS, Decimal, EXPONENT_MAX, EXPONENT_MIN, Parts};
use std::fmt;

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, coefficient, exponent) = match self.parts() {
            Parts::Nan => return out.write_str("NaN"),
            Parts::Infinity { negative } => {
                return out.write_str(if negative { "-Infinity" } else { "Infinity" });
            }
            Parts::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
        };
        if negative {
            out.write_str("-")?;
        }
        let digits = coefficient.to_string();
        let adjusted = exponent + digits.len() as i32 - 1;
        if exponent > 0 || adjusted < -6 {
            let (head, tail) = digits.split_at(1);
            let point = if tail.is_empty() { "" } else { "." };
            return write!(out, "{head}{point}{tail}E{adjusted:+}");
        }
        if exponent == 0 {
            return out.write_str(&digits);
        }
        let places = exponent.unsigned_abs() as usize;
        if digits.len() > places {
            let (whole, part) = digits.split_at(digits.len() - places);
            write!(out, "{whole}.{part}")
        } else {
            write!(out, "0.{digits:0>places$}")
        }
    }
}

impl Decimal {
    /// A number in decimal text, `Infinity` or `NaN`; surplus digits are rounded. `None` for anything else.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        match body.to_ascii_lowercase().as_str() {
            "inf" | "infinity" => return Some(Decimal::infinity(negative)),
            "nan" => return Some(Decimal::NAN),
            _ => {}
        }
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], parse_exponent(&body[at + 1..])?),
            None => (body, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + part.len() == 0 || !all_digits(whole) || !all_digits(part) {
            return None;
        }
        let digits = format!("{whole}{part}");
        let digits = digits.trim_start_matches('0');
        let (kept, cut) = digits.split_at(digits.len().min(72));
        let (head, tail) = kept.split_at(kept.len().min(36));
        let number = |text: &str| Big::from_u128(text.parse().unwrap_or(0));
        let coefficient = number(head).mul_pow10(tail.len()).add(&number(tail));
        let exponent = exponent.saturating_sub(part.len() as i64).saturating_add(cut.len() as i64);
        let sticky = cut.bytes().any(|byte| byte != b'0');
        Some(Decimal::rounded(negative, coefficient, exponent, sticky))
    }

    /// Like `parse`, but `None` where a finite text becomes infinite, or zero without being it.
    pub fn parse_finite(text: &str) -> Option<Decimal> {
        let parsed = Decimal::parse(text)?;
        let spelled = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let vanished = parsed.is_zero() && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
        (spelled || !(parsed.is_infinite() || vanished)).then_some(parsed)
    }

    /// Coefficient without trailing zeros and its exponent; zero is `(0, 0)`.
    pub fn canonical(self) -> Option<(bool, u128, i32)> {
        let Parts::Finite { negative, mut coefficient, mut exponent } = self.parts() else { return None };
        if coefficient == 0 {
            return Some((false, 0, 0));
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Some((negative, coefficient, exponent))
    }

    /// The integer that this value is, if it is one with at most 38 digits.
    pub fn to_integer(self) -> Option<i128> {
        let (negative, coefficient, exponent) = self.canonical()?;
        if !(0..=(38 - DIGITS as i32 + 34)).contains(&exponent) {
            return None;
        }
        let value = coefficient.checked_mul(10u128.checked_pow(exponent as u32)?)?;
        let value = i128::try_from(value).ok()?;
        Some(if negative { -value } else { value })
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let limit = i64::from(EXPONENT_MAX - EXPONENT_MIN) * 4;
    let value = digits.parse::<i64>().unwrap_or(limit).min(limit);
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn text_comes_back_as_it_was() {
        for text in
            ["0", "-0", "1.10", "1E+3", "0.000001", "1E-7", "-12.50", "9.99E+6144", "1E-6176", "0E+3", "NaN"]
        {
            let parsed = Decimal::parse(text).map(|value| value.to_string());
            let wanted =
                if text == "9.99E+6144" { "9.990000000000000000000000000000000E+6144" } else { text };
            assert_eq!(parsed.as_deref(), Some(wanted));
        }
        assert_eq!(Decimal::from_f64(1.5).to_string(), "1.50000000000000");
        assert_eq!(Decimal::parse("1e"), None);
        assert_eq!(Decimal::parse("1E+6145").map(Decimal::is_infinite), Some(true));
    }
}
