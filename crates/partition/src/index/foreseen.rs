//! The terms of a heavy item's body, found out before the sequencer is taken and beside the threads that answer requests.
//!
//! What is left to do under the sequencer is the rest: terms that depend on the version (`_ts`, computed properties,
//! composites), and the difference to the version before.

use std::sync::Arc;

use shardlake_document::RawDocument;
use shardlake_index::IndexLayout;
use shardlake_index::ItemTerms;
use shardlake_index::TermSet;
use shardlake_model::{Error, ErrorKind, Limits, PathMatcher, Result};

/// Of one body, under the policies that were in force when it was looked at.
#[derive(Debug)]
pub(crate) struct Foreseen {
    /// What it is charged for.
    pub charged: TermSet,
    bodies: Vec<(Arc<IndexLayout>, ItemTerms)>,
}

impl Foreseen {
    pub fn of(body: RawDocument<'_>, paths: &PathMatcher, layouts: Vec<Arc<IndexLayout>>) -> Foreseen {
        Foreseen::with(TermSet::of(body, paths), body, layouts)
    }

    pub fn with(charged: TermSet, body: RawDocument<'_>, layouts: Vec<Arc<IndexLayout>>) -> Foreseen {
        let of_body = |layout: Arc<IndexLayout>| (layout.clone(), ItemTerms::of_body(body, &layout));
        Foreseen { charged, bodies: layouts.into_iter().map(of_body).collect() }
    }

    /// The terms of the body under a layout, if they are known.
    pub fn terms(&self, layout: &Arc<IndexLayout>) -> Option<&ItemTerms> {
        // A number stands for one policy in the whole life of a container.
        let known = self.bodies.iter().find(|(known, _)| known.id == layout.id);
        known.map(|(_, terms)| terms)
    }

    /// Rows of the index that change when the other's item takes the place of this one, or when it goes; about.
    pub fn rows_changed_to(&self, new: Option<&Foreseen>) -> usize {
        let rows = |(layout, terms): &(Arc<IndexLayout>, ItemTerms)| {
            let Some(new) = new.and_then(|new| new.terms(layout)) else { return terms.len() };
            let mut rows = 0;
            terms.difference(new, &mut |_, _| rows += 1);
            rows
        };
        self.bodies.iter().map(rows).sum()
    }

    /// Rows of the index that the item has; about.
    pub fn rows(&self) -> usize {
        self.rows_changed_to(None)
    }

    /// Refuses what a client is to write with more terms than an item may have.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let most = self.bodies.iter().map(|(_, terms)| terms.len()).max().unwrap_or(0);
        check_terms(most, limits)
    }
}

/// Refuses more terms than an item may have.
pub(crate) fn check_terms(terms: usize, limits: &Limits) -> Result<()> {
    let max = limits.item_index_terms_max;
    if terms <= max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!(
            "the item has {terms} index terms, more than the limit of {max}: exclude paths from the container's \
             indexing policy, such as those of long arrays, or store less in one item"
        ),
    ))
}
