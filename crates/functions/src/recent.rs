//! Rate of new dead letters of a function.

use std::collections::VecDeque;

/// New letters within this time that pause a function: a broken deployment must not empty the feed into letters.
pub(crate) const LETTERS_MAX: usize = 100;
const LETTERS_MS: u64 = 10 * 60 * 1000;

/// Times of the latest new letters, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<u64>);

impl Recent {
    /// Notes a new letter. Returns whether there are too many.
    pub fn note(&mut self, now_ms: u64) -> bool {
        while self.0.front().is_some_and(|first| now_ms.saturating_sub(*first) > LETTERS_MS) {
            self.0.pop_front();
        }
        self.0.push_back(now_ms);
        let is_too_many = self.0.len() > LETTERS_MAX;
        if is_too_many {
            // A resumed function has the whole number again.
            self.0.clear();
        }
        is_too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_letters_within_ten_minutes_are_noticed() {
        let mut recent = Recent::default();
        assert!((0..100).all(|number| !recent.note(number * 1000)));
        assert!(recent.note(100_000), "the hundred and first");
        assert!(!recent.note(100_001), "counted anew");
        let mut recent = Recent::default();
        assert!((0..1000).all(|number| !recent.note(number * 6001)), "a slow trickle");
    }
}
