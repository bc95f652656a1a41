//! Counter of the terms computed on each thread, for tests.

use std::cell::Cell;

thread_local! {
    static TERMS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn note(terms: usize) {
    TERMS.set(TERMS.get() + terms);
}

/// Terms computed on this thread so far.
pub fn terms_here() -> usize {
    TERMS.get()
}
