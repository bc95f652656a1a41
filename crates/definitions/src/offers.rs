//! Operations on offers: the throughput of databases and containers.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_model::{Error, Offer, Preconditions, RequestContext, Result, Rid, Throughput};
use shardlake_stdx::Timestamp;

use crate::Resources;
use shardlake_router::LiveCatalog;
use shardlake_router::{check_preconditions, not_found};

impl Resources {
    pub fn offers(&self) -> Vec<Arc<Offer>> {
        self.0.router.catalog().load().definitions.offers.values().cloned().collect()
    }

    /// `rid` in any letter case: signatures carry it in lower case.
    pub fn offer(&self, rid: &str) -> Result<Arc<Offer>> {
        find(&self.0.router.catalog().load(), rid)
    }

    /// Also changes between manual and autoscale. Partitions are split in the background as the throughput requires.
    pub async fn replace_offer(
        &self,
        ctx: &RequestContext,
        rid: &str,
        throughput: Throughput,
        preconditions: &Preconditions,
    ) -> Result<Arc<Offer>> {
        self.router().check_has_throughput()?;
        let (resources, rid, now) = (self.clone(), rid.to_owned(), ctx.now);
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let old = find(live, &rid)?;
            check_preconditions(old.etag, &preconditions)?;
            throughput.validate(
                resources.router().limits(),
                old.minimum(throughput, resources.router().limits()) as i64,
            )?;
            let offer = Offer {
                throughput,
                enforced: true,
                highest_throughput: old.highest_throughput.max(throughput.maximum()),
                timestamp: now.seconds(),
                etag: resources.router().random().guid().0,
                ..Offer::clone(&old)
            };
            Ok(draft.offers.put(offer.rid, offer))
        };
        let (offer, _) = self.router().change(plan).await?;
        Ok(offer)
    }

    /// The least that a replace of this offer may set.
    pub fn minimum_throughput(&self, offer: &Offer, wanted: Throughput) -> u64 {
        offer.minimum(wanted, self.router().limits())
    }

    /// `resource` is the `_self` and the rid of the offer's resource.
    pub fn add_offer(
        &self,
        draft: &mut Definitions,
        resource: (String, String),
        (throughput, enforced): (Throughput, bool),
        now: Timestamp,
    ) {
        let offer = Offer {
            rid: draft.new_offer(),
            resource: resource.0,
            resource_rid: resource.1,
            throughput,
            highest_throughput: throughput.maximum(),
            enforced,
            timestamp: now.seconds(),
            etag: self.router().random().guid().0,
        };
        draft.offers.put(offer.rid, offer);
    }
}

fn find(catalog: &LiveCatalog, rid: &str) -> Result<Arc<Offer>> {
    if !matches!(Rid::parse(rid), Some(Rid::Offer(_))) {
        return Err(Error::bad_request(format!(
            "the offer link names '{rid}', which cannot be the id of an offer: take the link from the offer's '_self'"
        )));
    }
    let offer = catalog.definitions.offers.values().find(|offer| offer.rid.same_text(rid));
    offer.cloned().ok_or_else(|| not_found("offer", rid))
}
