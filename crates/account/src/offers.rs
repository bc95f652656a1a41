//! Operations on offers: the throughput of databases and containers.

use std::sync::Arc;

use shardlake_model::{Offer, OfferRid, Preconditions, RequestContext, Result, Throughput};

use crate::Account;
use crate::catalog::{Catalog, CatalogBatch};
use crate::databases::{check_preconditions, not_found};

impl Account {
    pub fn offers(&self) -> Vec<Arc<Offer>> {
        self.0.catalog.load().offers.values().cloned().collect()
    }

    /// `rid` in any letter case: signatures carry it in lower case.
    pub fn offer(&self, rid: &str) -> Result<Arc<Offer>> {
        find(&self.0.catalog.load(), rid)
    }

    /// Also changes between manual and autoscale. Partitions that the throughput asks for are cut in the background.
    pub async fn replace_offer(
        &self,
        ctx: &RequestContext,
        rid: &str,
        throughput: Throughput,
        preconditions: &Preconditions,
    ) -> Result<Arc<Offer>> {
        self.check_has_throughput()?;
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let old = find(&catalog, rid)?;
        check_preconditions(old.etag, preconditions)?;
        throughput.validate(self.limits(), old.minimum(throughput, self.limits()) as i64)?;
        let offer = Arc::new(Offer {
            throughput,
            enforced: true,
            highest_throughput: old.highest_throughput.max(throughput.maximum()),
            timestamp: ctx.now.seconds(),
            etag: self.random().guid().0,
            ..Offer::clone(&old)
        });
        let mut batch = CatalogBatch::new();
        batch.put_offer(&offer);
        catalog.offers.insert(offer.rid, offer.clone());
        self.publish(catalog, batch).await?;
        self.wake_balance();
        Ok(offer)
    }

    /// The least that a replace of this offer may set.
    pub fn minimum_throughput(&self, offer: &Offer, wanted: Throughput) -> u64 {
        offer.minimum(wanted, self.limits())
    }

    /// `resource` is the `_self` and the rid of what the offer is for.
    pub(crate) fn add_offer(
        &self,
        catalog: &mut Catalog,
        batch: &mut CatalogBatch,
        resource: (String, String),
        (throughput, enforced): (Throughput, bool),
        ctx: &RequestContext,
    ) {
        let offer = Offer {
            rid: new_offer_rid(catalog),
            resource: resource.0,
            resource_rid: resource.1,
            throughput,
            highest_throughput: throughput.maximum(),
            enforced,
            timestamp: ctx.now.seconds(),
            etag: self.random().guid().0,
        };
        batch.put_offer(&offer);
        batch.put_numbers(catalog.numbers);
        catalog.offers.insert(offer.rid, Arc::new(offer));
    }

    pub(crate) fn remove_offer(&self, catalog: &mut Catalog, batch: &mut CatalogBatch, resource_rid: &str) {
        if let Some(rid) = catalog.offer_of(resource_rid).map(|offer| offer.rid) {
            batch.delete_offer(rid);
            catalog.offers.remove(&rid);
        }
    }
}

fn find(catalog: &Catalog, rid: &str) -> Result<Arc<Offer>> {
    let offer = catalog.offers.values().find(|offer| offer.rid.same_text(rid));
    offer.cloned().ok_or_else(|| not_found("offer", rid))
}

/// Texts that differ only in letter case would be one offer to a client.
fn new_offer_rid(catalog: &mut Catalog) -> OfferRid {
    loop {
        let rid = OfferRid(catalog.numbers.offer);
        // Three bytes; an account holds a few hundred offers at once, so a free number is near.
        catalog.numbers.offer = (catalog.numbers.offer + 1) % (1 << 24);
        let text = rid.to_string();
        if catalog.offers.keys().all(|taken| !taken.same_text(&text)) {
            return rid;
        }
    }
}
