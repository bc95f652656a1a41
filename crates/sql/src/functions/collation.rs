//! Sort keys of texts by the rules of a language: indexes of collections with a collation hold them, as computed properties.

use std::cell::RefCell;

use shardlake_collation::{Collation, Rules};
use shardlake_document::text_of_id;

use crate::functions::call::{Call, owned_text};
use crate::value::datum::Datum;

thread_local! {
    /// The collation of the last call: the calls of a query or an index use the same rules.
    static LAST: RefCell<Option<(String, Collation)>> = const { RefCell::new(None) };
}

/// `SORTKEY(text, rules)`, with rules in their stored form.
pub(super) fn sort_key<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    sort_text(call.text(0)?, call.text(1)?)
}

/// The sort key of a text encoded as an item's id; undefined for ids of other values.
pub(super) fn sort_key_of_id<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    sort_text(&text_of_id(call.text(0)?)?, call.text(1)?)
}

fn sort_text<'a>(text: &str, rules: &str) -> Option<Datum<'a>> {
    LAST.with_borrow_mut(|last| {
        if !matches!(last, Some((known, _)) if known == rules) {
            *last = Some((rules.to_owned(), Collation::new(Rules::parse(rules)?).ok()?));
        }
        last.as_ref().map(|(_, collation)| owned_text(collation.sort_text(text)))
    })
}
