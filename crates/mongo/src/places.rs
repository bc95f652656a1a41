//! Geographic indexes: valid values of their fields. Documents that an index would refuse, before it is made.
//!
//! Filters do not read these indexes: documents are found as by any other filter, and sorted by distance.

use shardlake_mql::write::{ArrayRules, PlaceRules, body_of};
use shardlake_mql::{Document, Value};

use crate::collections::{Collection, Collections};
use crate::failure::Result;
use crate::reads::Scan;
use crate::request::Request;

impl Collections {
    /// Checks all documents of a collection that is to have such indexes.
    pub(crate) async fn check_all_places(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let places = PlaceRules::of(wanted);
        match places.is_empty() {
            true => Ok(()),
            false => self.check_all(request, collection, |document| Ok(places.check(document)?)).await,
        }
    }

    /// Checks the arrays of all documents of a collection that is to have such indexes.
    pub(crate) async fn check_all_arrays(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let arrays = ArrayRules::of(wanted);
        if arrays.is_empty() {
            return Ok(());
        }
        let check = |document: &Document| {
            let (body, _) = body_of(document)?;
            Ok(arrays.check(document, body.raw())?)
        };
        self.check_all(request, collection, check).await
    }

    async fn check_all(
        &self,
        request: &Request,
        collection: &Collection,
        check: impl Fn(&Document) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            page.iter().try_for_each(&check)?;
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
