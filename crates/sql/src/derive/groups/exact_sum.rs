//! Exact sum of doubles, from which doubles can be taken out again.
//!
//! The sum is an integer in units of the least double, 2^-1074, so it depends on the doubles alone and on no
//! order, no addition overflows, and taking a double out undoes its addition. It is rounded once, when it is
//! read.
//!
//! ```text
//! bit 0 = 2^-1074 … bit 1074 = 1 … bit 2097: the highest of the largest double … bit 2175: sign
//! ```
//! The bits between the largest double and the sign hold the sum of more than 2^64 of the largest doubles.
//!
//! Stored form: nothing for zero, else `sign u8 | first byte u16 | magnitude`, the magnitude in little-endian
//! order and without the zero bytes at both ends.

const LIMBS: usize = 34;
const BYTES: usize = LIMBS * 8;
const MANTISSA_BITS: u32 = 52;

/// In two's complement, the lowest limb first.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ExactSum([u64; LIMBS]);

impl std::fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ExactSum").field(&self.rounded()).finish()
    }
}

impl ExactSum {
    pub const ZERO: ExactSum = ExactSum([0; LIMBS]);

    pub fn add(&mut self, number: f64) {
        self.change(number, number < 0.0);
    }

    pub fn take_out(&mut self, number: f64) {
        self.change(number, number > 0.0);
    }

    fn change(&mut self, number: f64, is_down: bool) {
        assert!(number.is_finite(), "infinite numbers are counted apart");
        let (mantissa, shift) = parts(number);
        let place = (shift / 64) as usize;
        let shifted = u128::from(mantissa) << (shift % 64);
        let halves = [shifted as u64, (shifted >> 64) as u64];
        let mut carries = false;
        for (offset, limb) in self.0[place..].iter_mut().enumerate() {
            let half = halves.get(offset).copied().unwrap_or(0);
            if offset >= halves.len() && !carries {
                break;
            }
            let (changed, first) =
                if is_down { limb.overflowing_sub(half) } else { limb.overflowing_add(half) };
            let by = u64::from(carries);
            let (changed, second) =
                if is_down { changed.overflowing_sub(by) } else { changed.overflowing_add(by) };
            (*limb, carries) = (changed, first || second);
        }
    }

    fn is_negative(&self) -> bool {
        self.0[LIMBS - 1] >> 63 == 1
    }

    fn magnitude(&self) -> [u64; LIMBS] {
        let mut limbs = self.0;
        if self.is_negative() {
            let mut carries = true;
            for limb in &mut limbs {
                let (negated, overflows) = (!*limb).overflowing_add(u64::from(carries));
                (*limb, carries) = (negated, overflows);
            }
        }
        limbs
    }

    /// The nearest double; of two equally near the even one. Infinite beyond the largest one.
    pub fn rounded(&self) -> f64 {
        let rounded = rounded(&self.magnitude());
        if self.is_negative() { -rounded } else { rounded }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; BYTES];
        for (place, limb) in self.magnitude().iter().enumerate() {
            bytes[place * 8..place * 8 + 8].copy_from_slice(&limb.to_le_bytes());
        }
        let Some(first) = bytes.iter().position(|byte| *byte != 0) else { return };
        let last = bytes.iter().rposition(|byte| *byte != 0).expect("one byte is not zero");
        out.push(u8::from(self.is_negative()));
        out.extend_from_slice(&(first as u16).to_le_bytes());
        out.extend_from_slice(&bytes[first..=last]);
    }

    pub fn read(stored: &[u8]) -> Option<ExactSum> {
        if stored.is_empty() {
            return Some(ExactSum::ZERO);
        }
        let ([sign, low, high], magnitude) = stored.split_first_chunk()?;
        let first = usize::from(u16::from_le_bytes([*low, *high]));
        let mut bytes = [0; BYTES];
        bytes.get_mut(first..first.checked_add(magnitude.len())?)?.copy_from_slice(magnitude);
        let mut sum = ExactSum::ZERO;
        for (limb, bytes) in sum.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        match (sign, sum.is_negative()) {
            (0, false) => Some(sum),
            (1, false) => {
                sum.0.iter_mut().for_each(|limb| *limb = !*limb);
                let mut carries = true;
                for limb in &mut sum.0 {
                    let (changed, overflows) = limb.overflowing_add(u64::from(carries));
                    (*limb, carries) = (changed, overflows);
                }
                Some(sum)
            }
            _ => None,
        }
    }
}

/// The mantissa of a double's magnitude, and its place above the lowest bit.
fn parts(number: f64) -> (u64, u32) {
    let bits = number.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as u32 & 0x7FF;
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    match exponent {
        0 => (fraction, 0),
        _ => (fraction | 1 << MANTISSA_BITS, exponent - 1),
    }
}

fn rounded(magnitude: &[u64; LIMBS]) -> f64 {
    let Some(top) = magnitude.iter().rposition(|limb| *limb != 0) else { return 0.0 };
    let highest = top as u32 * 64 + 63 - magnitude[top].leading_zeros();
    if highest <= MANTISSA_BITS {
        // The bits of the least doubles are their magnitude.
        return f64::from_bits(magnitude[0]);
    }
    let lowest = highest - MANTISSA_BITS;
    let mut mantissa = bits_from(magnitude, lowest) & ((1 << (MANTISSA_BITS + 1)) - 1);
    let has_half = bits_from(magnitude, lowest - 1) & 1 == 1;
    if has_half && (mantissa & 1 == 1 || has_bits_below(magnitude, lowest - 1)) {
        mantissa += 1;
    }
    // A carry out of the mantissa counts as the next exponent, whose fraction is zero.
    let bits = (u64::from(lowest) << MANTISSA_BITS) + mantissa;
    if bits >= f64::INFINITY.to_bits() { f64::INFINITY } else { f64::from_bits(bits) }
}

/// 64 bits from a place on.
fn bits_from(magnitude: &[u64; LIMBS], place: u32) -> u64 {
    let (limb, shift) = ((place / 64) as usize, place % 64);
    let low = magnitude[limb] >> shift;
    match (shift, magnitude.get(limb + 1)) {
        (0, _) | (_, None) => low,
        (_, Some(next)) => low | next << (64 - shift),
    }
}

fn has_bits_below(magnitude: &[u64; LIMBS], place: u32) -> bool {
    let (limb, shift) = ((place / 64) as usize, place % 64);
    magnitude[..limb].iter().any(|limb| *limb != 0) || magnitude[limb] & ((1 << shift) - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum_of(numbers: &[f64]) -> ExactSum {
        let mut sum = ExactSum::ZERO;
        numbers.iter().for_each(|number| sum.add(*number));
        sum
    }

    #[test]
    fn sums_are_rounded_once() {
        let least = f64::from_bits(1);
        for (numbers, expected) in [
            (&[][..], 0.0),
            (&[1e300, 1.0, -1e300], 1.0),
            (&[1e-300, 1e300, -1e300], 1e-300),
            (&[0.1, 0.2, -0.3], 2.0f64.powi(-55)),
            (&[9_007_199_254_740_992.0, 1.0], 9_007_199_254_740_992.0),
            (&[9_007_199_254_740_992.0, 1.0, least], 9_007_199_254_740_994.0),
            (&[9_007_199_254_740_994.0, 1.0], 9_007_199_254_740_996.0),
            (&[9_007_199_254_740_994.0, 1.0, -least], 9_007_199_254_740_994.0),
            (&[f64::MAX, f64::MAX], f64::INFINITY),
            (&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX),
            (&[-f64::MAX, -f64::MAX], f64::NEG_INFINITY),
            (&[f64::MIN_POSITIVE, -least], f64::from_bits(f64::MIN_POSITIVE.to_bits() - 1)),
            (&[-5.0, 2.0], -3.0),
        ] {
            assert_eq!(sum_of(numbers).rounded(), expected, "{numbers:?}");
        }
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>().prop_filter("finite", |number| number.is_finite()),
            (-1000..1000i32).prop_map(f64::from),
            prop::sample::select(&[1e300, -1e300, 1e-300, -1e-300, f64::MAX, -f64::MAX, 0.1, -0.0][..]),
        ]
    }

    proptest! {
        #[test]
        fn a_sum_depends_on_its_numbers_alone(
            stay in prop::collection::vec(number(), 0..20), leave in prop::collection::vec(number(), 0..20),
        ) {
            let expected = sum_of(&stay);
            let mut sum = ExactSum::ZERO;
            leave.iter().chain(stay.iter().rev()).for_each(|number| sum.add(*number));
            leave.iter().rev().for_each(|number| sum.take_out(*number));
            prop_assert_eq!(&sum, &expected);
            let mut stored = Vec::new();
            sum.write(&mut stored);
            prop_assert_eq!(ExactSum::read(&stored), Some(expected));
        }

        #[test]
        fn sums_of_integers_are_theirs(numbers in prop::collection::vec(-(1i64 << 52)..1i64 << 52, 0..30)) {
            let doubles: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            let exact: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
            // Conversions of integers round to the nearest double, once.
            prop_assert_eq!(sum_of(&doubles).rounded(), exact as f64);
        }

        #[test]
        fn sums_of_two_are_those_of_doubles(left in number(), right in number()) {
            prop_assert_eq!(sum_of(&[left, right]).rounded(), left + right);
        }

        #[test]
        fn other_bytes_are_no_sum_or_another_one(stored in prop::collection::vec(any::<u8>(), 0..280)) {
            if let Some(sum) = ExactSum::read(&stored) {
                let mut written = Vec::new();
                sum.write(&mut written);
                prop_assert_eq!(ExactSum::read(&written), Some(sum));
            }
        }
    }
}
