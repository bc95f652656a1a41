//! IEEE 754-2008 decimal128 in the binary coding that BSON uses: reading, writing, comparing and computing.
//!
//! A value is kept as its 16 bytes, so that a stored one comes back as it was. Every operation rounds half to even at
//! 34 digits, as MongoDB does.

mod arithmetic;
mod big;
mod functions;
mod text;

pub use arithmetic::Rounding;
pub(crate) use big::Big;

/// Digits of a coefficient.
pub const DIGITS: usize = 34;
/// The least and the greatest exponent of a coefficient that is an integer.
pub const EXPONENT_MIN: i32 = -6176;
pub const EXPONENT_MAX: i32 = 6111;

/// A decimal128 value, as its bytes in BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal([u8; 16]);

/// The parts of a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    Nan,
    Infinity { negative: bool },
    Finite { negative: bool, coefficient: u128, exponent: i32 },
}

impl Decimal {
    pub const NAN: Decimal = Decimal([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7C]);
    pub const ZERO: Decimal = Decimal([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x30]);

    pub fn from_bytes(bytes: [u8; 16]) -> Decimal {
        Decimal(bytes)
    }

    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    pub fn infinity(negative: bool) -> Decimal {
        let mut bytes = [0; 16];
        bytes[15] = if negative { 0xF8 } else { 0x78 };
        Decimal(bytes)
    }

    pub fn parts(self) -> Parts {
        let bits = u128::from_le_bytes(self.0);
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 31 {
            31 => return Parts::Nan,
            30 => return Parts::Infinity { negative },
            _ => {}
        }
        // The second coding has coefficients above 34 digits only, which count as zero.
        let wide = (bits >> 125) & 3 == 3;
        let exponent = ((bits >> if wide { 111 } else { 113 }) & 0x3FFF) as i32 + EXPONENT_MIN;
        let mut coefficient = if wide { 0 } else { bits & ((1 << 113) - 1) };
        if coefficient >= 10u128.pow(DIGITS as u32) {
            coefficient = 0;
        }
        Parts::Finite { negative, coefficient, exponent }
    }

    /// A value of at most 34 digits whose exponent is in range.
    fn pack(negative: bool, coefficient: u128, exponent: i32) -> Decimal {
        debug_assert!(coefficient < 10u128.pow(DIGITS as u32), "a decimal has at most 34 digits");
        assert!(
            (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent),
            "the exponent of a decimal fits its field"
        );
        let biased = (exponent - EXPONENT_MIN) as u128;
        Decimal((u128::from(negative) << 127 | biased << 113 | coefficient).to_le_bytes())
    }

    /// Rounds a number of any size to a value; `sticky` means that a digit other than zero follows the last one.
    pub(crate) fn rounded(negative: bool, coefficient: Big, exponent: i64, sticky: bool) -> Decimal {
        let surplus = coefficient.digits() as i64 - DIGITS as i64;
        let drop = surplus.max(i64::from(EXPONENT_MIN) - exponent).max(0);
        let (mut kept, mut exponent) = (coefficient, exponent);
        if drop > 0 {
            kept = round_half_even(&kept, drop as usize, sticky);
            exponent += drop;
            if kept.digits() > DIGITS {
                kept = kept.divide_small(10).0;
                exponent += 1;
            }
        }
        if kept.is_zero() {
            let exponent = exponent.clamp(i64::from(EXPONENT_MIN), i64::from(EXPONENT_MAX));
            return Decimal::pack(negative, 0, exponent as i32);
        }
        if exponent > i64::from(EXPONENT_MAX) {
            let more = (exponent - i64::from(EXPONENT_MAX)) as usize;
            if kept.digits() + more > DIGITS {
                return Decimal::infinity(negative);
            }
            kept = kept.mul_pow10(more);
            exponent = i64::from(EXPONENT_MAX);
        }
        assert!(kept.digits() <= DIGITS, "rounding leaves at most 34 digits");
        Decimal::pack(negative, kept.to_u128().unwrap_or(0), exponent as i32)
    }

    pub fn from_i64(value: i64) -> Decimal {
        Decimal::pack(value < 0, u128::from(value.unsigned_abs()), 0)
    }

    /// The value with 15 significant digits, as MongoDB widens a double in arithmetic.
    pub fn from_f64(value: f64) -> Decimal {
        if value.is_nan() {
            return Decimal::NAN;
        }
        if value.is_infinite() {
            return Decimal::infinity(value < 0.0);
        }
        if value == 0.0 {
            return Decimal::pack(value.is_sign_negative(), 0, 0);
        }
        let text = format!("{:.14e}", value.abs());
        let parsed = Decimal::parse(&text).unwrap_or(Decimal::NAN);
        if value < 0.0 { parsed.negated() } else { parsed }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self.parts() {
            Parts::Nan => f64::NAN,
            Parts::Infinity { negative: true } => f64::NEG_INFINITY,
            Parts::Infinity { negative: false } => f64::INFINITY,
            Parts::Finite { negative, coefficient, exponent } => {
                let value: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -value } else { value }
            }
        }
    }

    pub fn is_nan(self) -> bool {
        self.parts() == Parts::Nan
    }

    pub fn is_infinite(self) -> bool {
        matches!(self.parts(), Parts::Infinity { .. })
    }

    pub fn is_finite(self) -> bool {
        matches!(self.parts(), Parts::Finite { .. })
    }

    pub fn is_zero(self) -> bool {
        matches!(self.parts(), Parts::Finite { coefficient: 0, .. })
    }

    pub fn is_negative(self) -> bool {
        self.0[15] & 0x80 != 0
    }

    pub fn negated(mut self) -> Decimal {
        self.0[15] ^= 0x80;
        self
    }

    pub fn abs(mut self) -> Decimal {
        self.0[15] &= 0x7F;
        self
    }
}

/// `value` without its last `drop` digits, half to even.
fn round_half_even(value: &Big, drop: usize, sticky: bool) -> Big {
    if drop > value.digits() + 1 {
        return Big::zero();
    }
    assert!(drop > 0, "rounding drops a digit");
    let (quotient, rest) = value.divide(&Big::pow10(drop));
    let half = Big::pow10(drop - 1).mul(&Big::from_u128(5));
    let up = match rest.cmp(&half) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => sticky || quotient.is_odd(),
        std::cmp::Ordering::Less => false,
    };
    if up { quotient.add(&Big::from_u128(1)) } else { quotient }
}

impl Decimal {
    /// The value of a double with 34 digits.
    pub fn from_f64_exact(value: f64) -> Decimal {
        if !value.is_finite() || value == 0.0 {
            return Decimal::from_f64(value);
        }
        let text = format!("{value:.1100}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        Decimal::parse(text).unwrap_or(Decimal::NAN)
    }
}
