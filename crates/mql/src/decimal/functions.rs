//! Roots, powers, logarithms and trigonometry of decimals, in fixed point of 80 places.
//!
//! The series end where their terms vanish, so each loop is bounded by the number of places.

use super::{Big, DIGITS, Decimal, Parts};
use std::cmp::Ordering;

const PLACES: usize = 80;

/// A number as a multiple of ten to the −80.
#[derive(Clone, Debug, PartialEq)]
struct Fixed {
    negative: bool,
    size: Big,
}

impl Fixed {
    fn new(negative: bool, size: Big) -> Fixed {
        Fixed { negative: negative && !size.is_zero(), size }
    }

    fn whole(value: i64) -> Fixed {
        Fixed::new(value < 0, Big::from_u128(u128::from(value.unsigned_abs())).mul_pow10(PLACES))
    }

    /// The value of a finite decimal; digits below the last place are cut off.
    fn of(negative: bool, coefficient: u128, exponent: i32) -> Fixed {
        let places = PLACES as i32 + exponent;
        let value = Big::from_u128(coefficient);
        let size = match places {
            0.. => value.mul_pow10(places as usize),
            -60..0 => value.divide(&Big::pow10(places.unsigned_abs() as usize)).0,
            _ => Big::zero(),
        };
        Fixed::new(negative, size)
    }

    fn to_decimal(&self) -> Decimal {
        Decimal::rounded(self.negative, self.size.clone(), -(PLACES as i64), false)
    }

    fn neg(&self) -> Fixed {
        Fixed::new(!self.negative, self.size.clone())
    }

    fn add(&self, other: &Fixed) -> Fixed {
        if self.negative == other.negative {
            return Fixed::new(self.negative, self.size.add(&other.size));
        }
        match self.size.cmp(&other.size) {
            Ordering::Less => Fixed::new(other.negative, other.size.sub(&self.size)),
            _ => Fixed::new(self.negative, self.size.sub(&other.size)),
        }
    }

    fn sub(&self, other: &Fixed) -> Fixed {
        self.add(&other.neg())
    }

    fn mul(&self, other: &Fixed) -> Fixed {
        let product = self.size.mul(&other.size);
        Fixed::new(self.negative != other.negative, product.divide(&Big::pow10(PLACES)).0)
    }

    fn div(&self, other: &Fixed) -> Fixed {
        let quotient = self.size.mul_pow10(PLACES).divide(&other.size).0;
        Fixed::new(self.negative != other.negative, quotient)
    }

    fn div_small(&self, divisor: u32) -> Fixed {
        Fixed::new(self.negative, self.size.divide_small(divisor).0)
    }

    fn is_zero(&self) -> bool {
        self.size.is_zero()
    }

    fn sqrt(&self) -> Fixed {
        Fixed::new(false, self.size.mul_pow10(PLACES).square_root())
    }

    /// The integer nearest to zero, if it is small.
    fn truncated(&self) -> i64 {
        let whole = self.size.divide(&Big::pow10(PLACES)).0.to_u128().unwrap_or(0) as i64;
        if self.negative { -whole } else { whole }
    }

    /// e to a power that is near zero.
    fn exp_small(&self) -> Fixed {
        let (mut sum, mut term) = (Fixed::whole(1), Fixed::whole(1));
        for step in 1..400 {
            term = term.mul(self).div_small(step);
            if term.is_zero() {
                break;
            }
            sum = sum.add(&term);
        }
        sum
    }

    /// The natural logarithm of a value from 1 to 10.
    fn ln_small(&self) -> Fixed {
        let mut guess = Fixed::of(false, (self.to_decimal().to_f64().ln() * 1e15) as u128, -15);
        for _ in 0..4 {
            let power = guess.exp_small();
            let step = self.sub(&power).div(&self.add(&power));
            guess = guess.add(&step).add(&step);
        }
        guess
    }

    fn ln10() -> Fixed {
        Fixed::whole(10).ln_small()
    }

    /// The inverse tangent of `1 / divisor`.
    fn arctan_inverse(divisor: u32) -> Fixed {
        let mut power = Fixed::whole(1).div_small(divisor);
        let mut sum = power.clone();
        for step in 1..400u32 {
            power = power.div_small(divisor * divisor);
            let term = power.div_small(2 * step + 1);
            if term.is_zero() {
                break;
            }
            sum = if step % 2 == 1 { sum.sub(&term) } else { sum.add(&term) };
        }
        sum
    }

    fn pi() -> Fixed {
        let four = Fixed::whole(4);
        let quarter = Fixed::arctan_inverse(5).mul(&four).sub(&Fixed::arctan_inverse(239));
        quarter.mul(&four)
    }

    /// Sine and cosine.
    fn sin_cos(&self) -> (Fixed, Fixed) {
        let turn = Fixed::pi().mul(&Fixed::whole(2));
        let rest = Fixed::new(self.negative, self.size.divide(&turn.size).1);
        let square = rest.mul(&rest);
        let (mut sine, mut cosine) = (rest.clone(), Fixed::whole(1));
        let (mut odd, mut even) = (rest, Fixed::whole(1));
        for step in 1..200u32 {
            even = even.mul(&square).div_small((2 * step - 1) * (2 * step)).neg();
            odd = odd.mul(&square).div_small(2 * step * (2 * step + 1)).neg();
            if even.is_zero() && odd.is_zero() {
                break;
            }
            (sine, cosine) = (sine.add(&odd), cosine.add(&even));
        }
        (sine, cosine)
    }

    fn arctan(&self) -> Fixed {
        let one = Fixed::whole(1);
        if self.size > one.size {
            let half_pi = Fixed::pi().div_small(2);
            let inner = one.div(&Fixed::new(false, self.size.clone())).arctan();
            let value = half_pi.sub(&inner);
            return if self.negative { value.neg() } else { value };
        }
        // Three halvings of the angle make the series short.
        let mut angle = self.clone();
        for _ in 0..3 {
            let root = one.add(&angle.mul(&angle)).sqrt();
            angle = angle.div(&one.add(&root));
        }
        let square = angle.mul(&angle);
        let (mut sum, mut power) = (angle.clone(), angle);
        for step in 1..400u32 {
            power = power.mul(&square).neg();
            let term = power.div_small(2 * step + 1);
            if term.is_zero() {
                break;
            }
            sum = sum.add(&term);
        }
        sum.mul(&Fixed::whole(8))
    }
}

/// Functions of one decimal; the caller has checked the domain.
impl Decimal {
    fn fixed(self) -> Option<Fixed> {
        match self.parts() {
            Parts::Finite { negative, coefficient, exponent } if exponent < 80 => {
                Some(Fixed::of(negative, coefficient, exponent))
            }
            _ => None,
        }
    }

    fn by_fixed(self, function: impl Fn(&Fixed) -> Fixed) -> Decimal {
        self.fixed().map_or(Decimal::NAN, |value| function(&value).to_decimal())
    }

    /// The square root of a value that is not negative.
    pub fn square_root(self) -> Decimal {
        let Parts::Finite { coefficient, exponent, negative } = self.parts() else { return self };
        if coefficient == 0 {
            return Decimal::rounded(negative, Big::zero(), i64::from(exponent.div_euclid(2)), false);
        }
        let ideal = i64::from(exponent.div_euclid(2));
        let odd = exponent.rem_euclid(2) as usize;
        let value = Big::from_u128(coefficient).mul_pow10(odd + 2 * (DIGITS + 2));
        let mut root = value.square_root();
        let exact = root.mul(&root) == value;
        let mut place = ideal - (DIGITS + 2) as i64;
        while exact && place < ideal {
            let (shorter, digit) = root.divide_small(10);
            if digit != 0 {
                break;
            }
            (root, place) = (shorter, place + 1);
        }
        Decimal::rounded(false, root, place, !exact)
    }

    pub fn exp(self) -> Decimal {
        match self.parts() {
            Parts::Nan => Decimal::NAN,
            Parts::Infinity { negative } => {
                if negative {
                    Decimal::ZERO
                } else {
                    self
                }
            }
            Parts::Finite { coefficient: 0, .. } => Decimal::from_i64(1),
            Parts::Finite { negative, coefficient, exponent } => {
                if coefficient.ilog10() as i32 + exponent > 5 {
                    return if negative { Decimal::tiny() } else { Decimal::infinity(false) };
                }
                whole_if_exact(exp_scaled(&Fixed::of(negative, coefficient, exponent)))
            }
        }
    }

    fn tiny() -> Decimal {
        Decimal::rounded(false, Big::zero(), i64::from(super::EXPONENT_MIN), false)
    }

    /// Logarithm of a positive value, split so that nothing cancels.
    fn ln_fixed(self) -> Option<Fixed> {
        let (_, coefficient, exponent) = self.canonical()?;
        let digits = coefficient.ilog10() as i32;
        let mantissa = Fixed::of(false, coefficient, -digits);
        let scale = Fixed::whole(i64::from(digits + exponent));
        Some(mantissa.ln_small().add(&scale.mul(&Fixed::ln10())))
    }

    /// The natural logarithm of a positive value.
    pub fn ln(self) -> Decimal {
        if !self.is_finite() {
            return self;
        }
        self.ln_fixed().map_or(Decimal::NAN, |value| whole_if_exact(value.to_decimal()))
    }

    /// The logarithm of a positive value to the base ten.
    pub fn log10(self) -> Decimal {
        let Some((_, coefficient, exponent)) = self.canonical() else { return self };
        if coefficient == 1 {
            return Decimal::from_i64(i64::from(exponent));
        }
        let log = |value: Fixed| whole_if_exact(value.div(&Fixed::ln10()).to_decimal());
        self.ln_fixed().map_or(Decimal::NAN, log)
    }

    /// The logarithm of a positive value to a positive base that is not one.
    pub fn log(self, base: Decimal) -> Decimal {
        self.ln().divide(base.ln())
    }

    pub fn power(self, exponent: Decimal) -> Decimal {
        let one = Decimal::from_i64(1);
        if exponent.is_zero() || self.compare(one) == Ordering::Equal {
            return one;
        }
        if self.is_nan() || exponent.is_nan() {
            return if self.is_nan() { self } else { exponent };
        }
        let integer = exponent.to_integer();
        let odd = integer.is_some_and(|value| value % 2 != 0);
        let negative = self.is_negative() && odd;
        if exponent.is_infinite() || self.is_infinite() || self.is_zero() {
            return self.power_at_the_edge(exponent, negative);
        }
        if self.is_negative() && exponent.canonical().is_some_and(|(_, _, place)| place < 0) {
            return Decimal::NAN;
        }
        if self.abs().compare(one) == Ordering::Equal {
            return if negative { one.negated() } else { one };
        }
        if let Some(exact) = self.exact_power(integer, negative) {
            return exact;
        }
        let (Some(ln), Some(factor)) = (self.abs().ln_fixed(), exponent.fixed()) else {
            let grows = self.abs().compare(one).is_gt() != exponent.is_negative();
            return if grows { Decimal::infinity(negative) } else { Decimal::tiny() };
        };
        let result = exp_scaled(&ln.mul(&factor));
        if negative { result.negated() } else { result }
    }

    fn power_at_the_edge(self, exponent: Decimal, negative: bool) -> Decimal {
        let one = Decimal::from_i64(1);
        let size = self.abs().compare(one);
        if size == Ordering::Equal {
            return one;
        }
        if size.is_gt() != exponent.is_negative() { Decimal::infinity(negative) } else { Decimal::tiny() }
    }

    fn exact_power(self, exponent: Option<i128>, negative: bool) -> Option<Decimal> {
        let times = u32::try_from(exponent?).ok().filter(|times| *times <= 6200)?;
        let Parts::Finite { coefficient, exponent, .. } = self.parts() else { return None };
        let mut product = Big::from_u128(1);
        let base = Big::from_u128(coefficient);
        for _ in 0..times {
            product = product.mul(&base);
            if product.digits() > 110 {
                return None;
            }
        }
        // A power shows all digits that there are.
        let more = DIGITS.saturating_sub(product.digits());
        let exponent = i64::from(exponent) * i64::from(times) - more as i64;
        Some(Decimal::rounded(negative, product.mul_pow10(more), exponent, false))
    }

    pub fn sin(self) -> Decimal {
        self.by_fixed(|value| value.sin_cos().0)
    }

    pub fn cos(self) -> Decimal {
        self.by_fixed(|value| value.sin_cos().1)
    }

    pub fn tan(self) -> Decimal {
        self.by_fixed(|value| {
            let (sine, cosine) = value.sin_cos();
            if cosine.is_zero() { sine } else { sine.div(&cosine) }
        })
    }

    pub fn atan(self) -> Decimal {
        if self.is_infinite() {
            let half = Fixed::pi().div_small(2);
            return if self.is_negative() { half.neg() } else { half }.to_decimal();
        }
        self.by_fixed(Fixed::arctan)
    }

    pub fn asin(self) -> Decimal {
        self.by_fixed(|value| {
            let rest = Fixed::whole(1).sub(&value.mul(value)).sqrt();
            if rest.is_zero() {
                let half = Fixed::pi().div_small(2);
                return if value.negative { half.neg() } else { half };
            }
            value.div(&rest).arctan()
        })
    }

    pub fn acos(self) -> Decimal {
        self.by_fixed(|value| {
            let rest = Fixed::whole(1).sub(&value.mul(value)).sqrt();
            if value.is_zero() {
                return Fixed::pi().div_small(2);
            }
            let angle = rest.div(value).arctan();
            if value.negative { angle.add(&Fixed::pi()) } else { angle }
        })
    }

    /// The angle of the point whose ordinate is this value.
    pub fn atan2(self, x: Decimal) -> Decimal {
        let (Some(y), Some(x)) = (self.fixed(), x.fixed()) else {
            return Decimal::from_f64(self.to_f64().atan2(x.to_f64()));
        };
        let half = Fixed::pi().div_small(2);
        let angle = match (x.is_zero(), y.is_zero()) {
            (true, true) => Fixed::whole(0),
            (true, false) => {
                if y.negative {
                    half.neg()
                } else {
                    half
                }
            }
            (false, _) => {
                let angle = y.div(&x).arctan();
                match (x.negative, y.negative) {
                    (false, _) => angle,
                    (true, false) => angle.add(&Fixed::pi()),
                    (true, true) => angle.sub(&Fixed::pi()),
                }
            }
        };
        angle.to_decimal()
    }

    pub fn sinh(self) -> Decimal {
        self.hyperbolic(|up, down| up.subtract(down))
    }

    pub fn cosh(self) -> Decimal {
        self.hyperbolic(|up, down| up.add(down))
    }

    fn hyperbolic(self, join: impl Fn(Decimal, Decimal) -> Decimal) -> Decimal {
        if let Some(value) = self.fixed().filter(|value| value.truncated().abs() < 40) {
            let up = value.exp_small();
            let down = Fixed::whole(1).div(&up);
            // The decimals of `up` and `down` would lose the digits that cancel in a sine of a small number.
            let sum = join(Decimal::from_i64(1), Decimal::from_i64(1)).is_zero();
            let joined = if sum { up.sub(&down) } else { up.add(&down) };
            return joined.div_small(2).to_decimal();
        }
        join(self.exp(), self.negated().exp()).divide(Decimal::from_i64(2))
    }

    pub fn tanh(self) -> Decimal {
        match self.fixed().filter(|value| value.truncated().abs() < 45) {
            Some(value) => {
                let up = value.exp_small();
                let down = Fixed::whole(1).div(&up);
                up.sub(&down).div(&up.add(&down)).to_decimal()
            }
            None => Decimal::from_i64(if self.is_negative() { -1 } else { 1 }),
        }
    }

    pub fn asinh(self) -> Decimal {
        let size = self.abs();
        let one = Decimal::from_i64(1);
        let value = size.add(size.multiply(size).add(one).square_root()).ln();
        if self.is_negative() { value.negated() } else { value }
    }

    pub fn acosh(self) -> Decimal {
        let one = Decimal::from_i64(1);
        self.add(self.multiply(self).subtract(one).square_root()).ln()
    }

    pub fn atanh(self) -> Decimal {
        let one = Decimal::from_i64(1);
        one.add(self).divide(one.subtract(self)).ln().divide(Decimal::from_i64(2))
    }

    /// The value times π and divided by 180, or the reverse.
    pub fn turned(self, to_radians: bool) -> Decimal {
        let half_turn = Decimal::from_i64(180);
        let pi = Fixed::pi().to_decimal();
        if to_radians { self.multiply(pi.divide(half_turn)) } else { self.multiply(half_turn.divide(pi)) }
    }
}

/// An integer without the places that fixed point gave it.
fn whole_if_exact(value: Decimal) -> Decimal {
    match value.canonical() {
        Some((negative, coefficient, place)) if (0..DIGITS as i32).contains(&place) => {
            let whole = Big::from_u128(coefficient).mul_pow10(place as usize);
            if whole.digits() <= DIGITS { Decimal::rounded(negative, whole, 0, false) } else { value }
        }
        _ => value,
    }
}

/// e to a power of any size, as a power of ten times a small one.
fn exp_scaled(value: &Fixed) -> Decimal {
    let ln10 = Fixed::ln10();
    let tens = value.div(&ln10).truncated();
    let rest = value.sub(&ln10.mul(&Fixed::whole(tens)));
    let power = rest.exp_small();
    Decimal::rounded(false, power.size, tens - PLACES as i64, true)
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn known_values_to_34_digits() {
        let value = |text: &str| Decimal::parse(text).unwrap();
        assert_eq!(value("2").square_root().to_string(), "1.414213562373095048801688724209698");
        assert_eq!(value("16").square_root().to_string(), "4");
        assert_eq!(value("1").exp().to_string(), "2.718281828459045235360287471352662");
        assert_eq!(value("2").ln().to_string(), "0.6931471805599453094172321214581766");
        assert_eq!(value("1000").log10().to_string(), "3");
        assert_eq!(value("1").atan().to_string(), "0.7853981633974483096156608458198757");
        assert_eq!(value("1").sin().to_string(), "0.8414709848078965066525023216302990");
        assert_eq!(value("2").power(value("0.5")).to_string(), "1.414213562373095048801688724209698");
        assert_eq!(value("2").power(value("3")).to_string(), "8.000000000000000000000000000000000");
    }
}
