//! Queries around the one that reads items, from the inside out (`whole.rs`).

use std::sync::Arc;

use super::limits::{MEMORY_BYTES_MAX, PageLimits};
use super::state::State;
use crate::bound::BoundQuery;

/// Limits of a query inside another one.
const WHOLE: PageLimits = PageLimits { rows: usize::MAX, size_bytes: MEMORY_BYTES_MAX };

/// Query around another one, whose rows are its input.
pub(super) struct Around {
    pub query: Arc<BoundQuery>,
    pub limits: PageLimits,
    pub state: State,
}

/// The query that reads items, and those around it from the inside out.
pub(super) struct Inside {
    pub query: Arc<BoundQuery>,
    pub limits: PageLimits,
    pub state: State,
    pub around: Vec<Around>,
}

pub(super) fn inside(query: Arc<BoundQuery>, limits: PageLimits, state: State) -> Inside {
    let mut inside = Inside { query, limits, state, around: vec![] };
    while let Some((inner, ..)) = inside.query.whole_result() {
        let (query, state) = (Arc::new(inner.clone()), State::first(inner));
        let Inside { query: outer, limits, state: of_outer, mut around } = inside;
        around.insert(0, Around { query: outer, limits, state: of_outer });
        inside = Inside { query, limits: WHOLE, state, around };
    }
    inside
}
