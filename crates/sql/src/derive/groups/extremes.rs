//! MIN and MAX of values that come and go: the best values with their counts, and the number of all others.
//!
//! A value that leaves is taken off its count. When the last of the best leaves while others exist, the
//! extreme is not known any more, and the group is made anew from its items. Several values are kept so that
//! this is rare.

use super::argument::{Argument, Lost};
use super::coding::{Reader, Writer};

/// Different values.
const KEPT_MAX: usize = 8;
/// Of the values, unless there is one only.
const KEPT_BYTES_MAX: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Extremes {
    /// Best first, in the ordered encoding: no other value is better than the last of them.
    kept: Vec<(Vec<u8>, u64)>,
    others: u64,
    is_maximum: bool,
}

impl Extremes {
    pub fn new(is_maximum: bool) -> Extremes {
        Extremes { is_maximum, ..Extremes::default() }
    }

    /// `None` without values.
    pub fn best(&self) -> Option<&[u8]> {
        self.kept.first().map(|(value, _)| &value[..])
    }

    pub fn is_known(&self) -> bool {
        !self.kept.is_empty() || self.others == 0
    }

    /// Whether both may be of the same values: as many, and the same best ones as far as both are known.
    pub fn agree_with(&self, other: &Extremes) -> bool {
        self.count() == other.count() && self.kept.iter().zip(&other.kept).all(|(one, other)| one == other)
    }

    fn count(&self) -> u64 {
        self.kept.iter().fold(self.others, |count, (_, times)| count.saturating_add(*times))
    }

    pub fn add(&mut self, value: &[u8]) {
        let is_maximum = self.is_maximum;
        let order = |kept: &(Vec<u8>, u64)| {
            let order = kept.0.as_slice().cmp(value);
            if is_maximum { order.reverse() } else { order }
        };
        match self.kept.binary_search_by(order) {
            Ok(place) => self.kept[place].1 += 1,
            // Others may be better.
            Err(place) if place == self.kept.len() && self.others > 0 => self.others += 1,
            Err(place) => {
                self.kept.insert(place, (value.to_vec(), 1));
                self.bound();
            }
        }
    }

    fn bound(&mut self) {
        let mut bytes: usize = self.kept.iter().map(|(value, _)| value.len()).sum();
        while self.kept.len() > 1 && (self.kept.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX) {
            let (value, count) = self.kept.pop().expect("several are kept");
            bytes -= value.len();
            self.others += count;
        }
    }

    pub fn take_out(&mut self, argument: &Argument) -> Result<(), Lost> {
        match self.kept.iter().position(|(value, _)| argument.is_extreme(value)) {
            Some(place) => {
                self.kept[place].1 -= 1;
                if self.kept[place].1 == 0 {
                    self.kept.remove(place);
                }
            }
            None => self.others = self.others.checked_sub(1).ok_or(Lost)?,
        }
        Ok(())
    }

    pub fn write(&self, out: &mut Writer) {
        out.number(self.others);
        out.number(self.kept.len() as u64);
        for (value, count) in &self.kept {
            out.bytes(value);
            out.number(*count);
        }
    }

    pub fn read(bytes: &mut Reader<'_>, is_maximum: bool) -> Option<Extremes> {
        let others = bytes.number()?;
        let length = bytes.number()?;
        let mut kept = Vec::new();
        for _ in 0..length {
            kept.push((bytes.bytes()?.to_vec(), bytes.number()?));
        }
        let is_better = |a: &[u8], b: &[u8]| if is_maximum { a > b } else { a < b };
        let is_sorted = kept.windows(2).all(|pair| is_better(&pair[0].0, &pair[1].0));
        let is_sound = is_sorted && kept.iter().all(|(_, count)| *count > 0) && kept.len() <= KEPT_MAX;
        is_sound.then_some(Extremes { kept, others, is_maximum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extremes_are_known_or_admit_that_they_are_not(
            acts in prop::collection::vec((0..40u8, any::<bool>()), 0..200), is_maximum in any::<bool>(),
        ) {
            let (mut values, mut extremes) = (Vec::new(), Extremes::new(is_maximum));
            for (value, comes) in acts {
                let bytes = vec![value; if value == 7 { 600 } else { 3 }];
                if comes || values.is_empty() {
                    extremes.add(&bytes);
                    values.push(bytes);
                } else {
                    let gone = values.swap_remove(usize::from(value) % values.len());
                    prop_assert_eq!(extremes.take_out(&Argument::Extreme(gone)), Ok(()));
                }
                if !extremes.is_known() {
                    // As a group is made anew.
                    extremes = Extremes::new(is_maximum);
                    values.iter().for_each(|value| extremes.add(value));
                }
                let mut anew = Extremes::new(is_maximum);
                values.iter().for_each(|value| anew.add(value));
                prop_assert!(extremes.agree_with(&anew));
                anew.add(&[99]);
                prop_assert!(!extremes.agree_with(&anew), "another value");
                let best = if is_maximum { values.iter().max() } else { values.iter().min() };
                prop_assert_eq!(extremes.best(), best.map(|best| &best[..]));
            }
            let mut out = Writer::default();
            extremes.write(&mut out);
            let bytes = out.finish();
            prop_assert_eq!(Extremes::read(&mut Reader::new(&bytes), is_maximum), Some(extremes));
        }
    }

    #[test]
    fn values_that_were_not_there_are_noticed() {
        let mut extremes = Extremes::new(false);
        extremes.add(b"a");
        assert_eq!(extremes.take_out(&Argument::Extreme(b"b".to_vec())), Err(Lost));
    }
}
