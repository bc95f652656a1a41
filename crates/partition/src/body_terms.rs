//! The terms of an item's body, found out once: of a new body before the sequencer is taken, of a stored one when it is replaced.
//!
//! The remaining work for a version: terms that depend on it (`_ts`, computed properties,
//! composites), and the difference to the version before.

use std::borrow::Cow;

use shardlake_document::RawDocument;
use shardlake_index::{IndexLayout, ItemTerms, TermSet};
use shardlake_model::{Error, ErrorKind, Limits, Result};

use crate::shape::ContainerSchema;

/// Terms of one body, under the policies that were in force when it was looked at.
#[derive(Debug, Default)]
pub(crate) struct BodyTerms {
    /// The terms that are charged.
    pub charged: TermSet,
    /// By the number of the layout, which stands for one policy in the whole life of a container.
    layouts: Vec<(u16, ItemTerms)>,
}

impl BodyTerms {
    pub fn of(body: RawDocument<'_>, shape: &ContainerSchema) -> BodyTerms {
        let mut terms = BodyTerms::default();
        // One walk for the charge and the first layout, which is all that there is outside of a build.
        let mut paths = Some(&shape.indexed_paths);
        for layout in shape.serving.iter().chain(&shape.building) {
            let (of_layout, charged) = ItemTerms::of_body(body, layout, paths);
            if paths.take().is_some() {
                terms.charged = charged;
            }
            terms.layouts.push((layout.id, of_layout));
        }
        if let Some(paths) = paths {
            terms.charged = TermSet::of(body, paths);
        }
        terms
    }

    /// The terms of the body under a layout, if they are known.
    pub fn of_layout(&self, layout: &IndexLayout) -> Option<&ItemTerms> {
        self.of_id(layout.id)
    }

    fn of_id(&self, id: u16) -> Option<&ItemTerms> {
        self.layouts.iter().find(|(known, _)| *known == id).map(|(_, terms)| terms)
    }

    /// Rows of the index that change when the other's item takes the place of this one, or when it goes; about.
    pub fn rows_changed_to(&self, new: Option<&BodyTerms>) -> usize {
        let rows = |(id, terms): &(u16, ItemTerms)| {
            let Some(new) = new.and_then(|new| new.of_id(*id)) else { return terms.len() };
            let mut rows = 0;
            terms.difference(new, &mut |_, _| rows += 1);
            rows
        };
        self.layouts.iter().map(rows).sum()
    }

    /// Rows of the index that the item has; about.
    pub fn rows(&self) -> usize {
        self.layouts.iter().map(|(_, terms)| terms.len()).sum()
    }

    /// Refuses an item of a client with more terms than an item may have.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let most = self.layouts.iter().map(|(_, terms)| terms.found()).max().unwrap_or(0);
        let (terms, max) = (most.max(self.charged.len()), limits.item_index_terms_max);
        if terms <= max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the item has {terms} index terms, more than the limit of {max} (`max-index-terms`): exclude paths \
                 from the container's indexing policy, such as those of long arrays, or store less in one item"
            ),
        ))
    }
}

/// The terms of an item under one layout: those of its body, and the rest.
#[derive(Debug, Default)]
pub(crate) struct IndexTerms<'t> {
    pub body: Cow<'t, ItemTerms>,
    pub rest: ItemTerms,
}

impl IndexTerms<'_> {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.body.iter().chain(self.rest.iter())
    }

    /// Calls `visit` with (true, term) for every term that `new` lacks and (false, term) for every
    /// term that it adds.
    pub fn difference(&self, new: &IndexTerms<'_>, visit: &mut dyn FnMut(bool, &[u8])) {
        self.body.difference(&new.body, visit);
        self.rest.difference(&new.rest, visit);
    }

    /// Whether the item has anything but undefined under a path.
    pub fn has_value_under(&self, path_hash: u64) -> bool {
        self.body.has_value_under(path_hash) || self.rest.has_value_under(path_hash)
    }
}
