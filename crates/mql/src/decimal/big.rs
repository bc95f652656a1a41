//! Natural numbers of any size, in base 10⁹, little end first: the operations that decimal arithmetic needs and no
//! more.

use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;

/// A natural number; no leading zero limbs, so zero has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Big(Vec<u32>);

impl Big {
    pub fn zero() -> Big {
        Big(Vec::new())
    }

    pub fn from_u128(mut value: u128) -> Big {
        let mut limbs = Vec::with_capacity(5);
        while value > 0 {
            limbs.push((value % u128::from(BASE)) as u32);
            value /= u128::from(BASE);
        }
        Big(limbs)
    }

    /// The value, where it has at most 38 digits.
    pub fn to_u128(&self) -> Option<u128> {
        if self.digits() > 38 {
            return None;
        }
        Some(self.0.iter().rev().fold(0u128, |sum, limb| sum * u128::from(BASE) + u128::from(*limb)))
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|limb| limb % 2 == 1)
    }

    /// Number of decimal digits; zero has none.
    pub fn digits(&self) -> usize {
        match self.0.last() {
            None => 0,
            Some(top) => (self.0.len() - 1) * 9 + top.ilog10() as usize + 1,
        }
    }

    pub fn pow10(exponent: usize) -> Big {
        let mut limbs = vec![0; exponent / 9];
        limbs.push(10u32.pow((exponent % 9) as u32));
        Big(limbs)
    }

    pub fn pow2(exponent: usize) -> Big {
        let mut result = Big::from_u128(1u128 << (exponent % 100));
        let step = Big::from_u128(1u128 << 100);
        for _ in 0..exponent / 100 {
            result = result.mul(&step);
        }
        result
    }

    fn trim(mut self) -> Big {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    pub fn add(&self, other: &Big) -> Big {
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0u64;
        for at in 0..self.0.len().max(other.0.len()) {
            let sum = u64::from(self.limb(at)) + u64::from(other.limb(at)) + carry;
            limbs.push((sum % BASE) as u32);
            carry = sum / BASE;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
        Big(limbs)
    }

    /// The difference of this and a number that is not greater.
    pub fn sub(&self, other: &Big) -> Big {
        let mut limbs = Vec::with_capacity(self.0.len());
        let mut borrow = 0i64;
        for at in 0..self.0.len() {
            let mut difference = i64::from(self.limb(at)) - i64::from(other.limb(at)) - borrow;
            borrow = i64::from(difference < 0);
            if difference < 0 {
                difference += BASE as i64;
            }
            limbs.push(difference as u32);
        }
        assert_eq!(borrow, 0, "only a number that is no larger is subtracted");
        Big(limbs).trim()
    }

    fn limb(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub fn mul(&self, other: &Big) -> Big {
        let mut limbs = vec![0u32; self.0.len() + other.0.len()];
        for (at, left) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (offset, right) in other.0.iter().enumerate() {
                let sum = u64::from(*left) * u64::from(*right) + u64::from(limbs[at + offset]) + carry;
                limbs[at + offset] = (sum % BASE) as u32;
                carry = sum / BASE;
            }
            limbs[at + other.0.len()] = carry as u32;
        }
        Big(limbs).trim()
    }

    pub fn mul_pow10(&self, exponent: usize) -> Big {
        if exponent == 0 || self.is_zero() { self.clone() } else { self.mul(&Big::pow10(exponent)) }
    }

    /// Quotient and remainder; the divisor is not zero.
    pub fn divide(&self, divisor: &Big) -> (Big, Big) {
        assert!(!divisor.is_zero(), "numbers are divided by zero nowhere");
        if self < divisor {
            return (Big::zero(), self.clone());
        }
        if let [single] = divisor.0[..] {
            let (quotient, rest) = self.divide_small(single);
            return (quotient, Big::from_u128(u128::from(rest)));
        }
        let (quotient, rest) = self.divide_long(divisor);
        debug_assert!(rest < *divisor, "the rest of a division is below its divisor");
        debug_assert_eq!(quotient.mul(divisor).add(&rest), *self, "a division loses nothing");
        (quotient, rest)
    }

    pub fn divide_small(&self, divisor: u32) -> (Big, u32) {
        let mut limbs = vec![0; self.0.len()];
        let mut rest = 0u64;
        for at in (0..self.0.len()).rev() {
            let value = rest * BASE + u64::from(self.0[at]);
            limbs[at] = (value / u64::from(divisor)) as u32;
            rest = value % u64::from(divisor);
        }
        (Big(limbs).trim(), rest as u32)
    }

    /// Knuth's algorithm D, in base 10⁹.
    fn divide_long(&self, divisor: &Big) -> (Big, Big) {
        let scale = (BASE / (u64::from(divisor.limb(divisor.0.len() - 1)) + 1)) as u32;
        let factor = Big::from_u128(u128::from(scale));
        let divisor_scaled = divisor.mul(&factor);
        let mut rest = self.mul(&factor).0;
        rest.resize(self.0.len() + 2, 0);
        let (size, top) = (divisor_scaled.0.len(), u64::from(*divisor_scaled.0.last().unwrap_or(&1)));
        let next = u64::from(divisor_scaled.limb(size.wrapping_sub(2)));
        let mut quotient = vec![0u32; rest.len() - size];
        for at in (0..rest.len() - size).rev() {
            let head = u64::from(rest[at + size]) * BASE + u64::from(rest[at + size - 1]);
            let (mut guess, mut left) = (head / top, head % top);
            while guess >= BASE || guess * next > left * BASE + u64::from(rest[at + size - 2]) {
                guess -= 1;
                left += top;
                if left >= BASE {
                    break;
                }
            }
            if subtract_multiple(&mut rest[at..=at + size], &divisor_scaled.0, guess) {
                guess -= 1;
                add_back(&mut rest[at..=at + size], &divisor_scaled.0);
            }
            assert!(guess < BASE, "each place of a quotient has one digit");
            quotient[at] = guess as u32;
        }
        (Big(quotient).trim(), Big(rest).trim().divide_small(scale).0)
    }

    /// The greatest number whose square is not above this one.
    pub fn square_root(&self) -> Big {
        if self.is_zero() {
            return Big::zero();
        }
        let mut guess = Big::pow10(self.digits().div_ceil(2));
        loop {
            let next = guess.add(&self.divide(&guess).0).divide_small(2).0;
            if next >= guess {
                debug_assert!(guess.mul(&guess) <= *self, "a root is rounded down");
                return guess;
            }
            guess = next;
        }
    }
}

/// Takes `factor` times `divisor` from `rest`; true if that went below zero.
fn subtract_multiple(rest: &mut [u32], divisor: &[u32], factor: u64) -> bool {
    let (mut carry, mut borrow) = (0u64, 0i64);
    for (at, slot) in rest.iter_mut().enumerate() {
        let product = u64::from(divisor.get(at).copied().unwrap_or(0)) * factor + carry;
        carry = product / BASE;
        let mut difference = i64::from(*slot) - (product % BASE) as i64 - borrow;
        borrow = i64::from(difference < 0);
        if difference < 0 {
            difference += BASE as i64;
        }
        *slot = difference as u32;
    }
    borrow > 0
}

fn add_back(rest: &mut [u32], divisor: &[u32]) {
    let mut carry = 0u64;
    for (at, slot) in rest.iter_mut().enumerate() {
        let sum = u64::from(*slot) + u64::from(divisor.get(at).copied().unwrap_or(0)) + carry;
        *slot = (sum % BASE) as u32;
        carry = sum / BASE;
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Big) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Big) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_division_undoes_multiplication() {
        let mut left = Big::from_u128(987_654_321_987_654_321_123_456_789);
        for step in 1..40u128 {
            let right = Big::from_u128(step * 999_999_999_999_999_989 + (1 << 70) * step);
            let rest = right.divide_small(3).0;
            let product = left.mul(&right).add(&rest);
            assert_eq!(product.divide(&right), (left.clone(), rest));
            left = left.mul(&Big::from_u128(999_999_999 + step)).divide_small(7).0;
        }
    }

    #[test]
    fn square_root_is_the_floor() {
        let square = Big::pow10(61).add(&Big::from_u128(17));
        let root = square.square_root();
        let above = root.add(&Big::from_u128(1));
        assert!(root.mul(&root) <= square && above.mul(&above) > square);
    }
}
