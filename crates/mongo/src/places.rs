//! Geographic indexes: valid values of their fields, checked before documents are stored and when an index is made.
//!
//! Filters do not read these indexes: documents are found as by any other filter, and sorted by distance.

use shardlake_mql::{Document, Places, Value};

use crate::collections::{Collection, Collections};
use crate::failure::Result;
use crate::meta::Meta;
use crate::reads::Scan;
use crate::request::Request;

/// The fields of geographic indexes, with the values that they accept.
fn places_of(indexes: &[Document]) -> Vec<(&str, Places)> {
    let keys = indexes.iter().filter_map(|index| Some((index, index.get("key")?.as_document()?)));
    keys.flat_map(|(index, key)| {
        key.iter().filter_map(move |(field, kind)| Some((&**field, Places::of_kind(kind.as_str()?, index)?)))
    })
    .collect()
}

impl Meta {
    /// Refuses a document that an index of places cannot take.
    pub(crate) fn check_places(&self, document: &Document) -> Result<()> {
        let mut places = places_of(&self.indexes).into_iter();
        Ok(places.try_for_each(|(field, places)| places.check(document, field))?)
    }
}

impl Collections {
    /// Checks all documents of a collection that is to have such indexes.
    pub(crate) async fn check_all_places(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let places = places_of(wanted);
        if places.is_empty() {
            return Ok(());
        }
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            for document in &page {
                places.iter().try_for_each(|(field, places)| places.check(document, field))?;
            }
        }
        Ok(())
    }
}

/// Options of an index in a plane: its bounds, and the digits of its cells.
pub(crate) fn check_plane_options(specification: &Document) -> Result<()> {
    let number = |name: &str| specification.get(name).map(|value| value.to_f64().ok_or(value));
    if let Some(bits) = number("bits")
        && !bits.is_ok_and(|bits| (1.0..=32.0).contains(&bits))
    {
        let words = "bits for hash must be > 0 and <= 32, for an index of kind '2d'";
        return Err(crate::failure::Failure::new(72, words));
    }
    let bound = |name: &str, usual: f64| match number(name) {
        None => Ok(usual),
        Some(Ok(bound)) => Ok(bound),
        Some(Err(value)) => Err(not_a_number(name, value)),
    };
    if bound("min", -180.0)? >= bound("max", 180.0)? {
        return Err(crate::failure::Failure::new(72, "region for hash must be valid and have positive area"));
    }
    Ok(())
}

fn not_a_number(name: &str, value: &Value) -> crate::failure::Failure {
    let words = format!("The field '{name}' of an index must be a number, is {}", value.type_name());
    crate::failure::Failure::new(14, words)
}
