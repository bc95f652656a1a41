//! Offers: the throughput of databases and containers as resources of their own (wire.md §14).

use http::{HeaderValue, StatusCode};
use serde_json::json;
use shardlake_account::METADATA_WRITE_CHARGE_CENTI;
use shardlake_model::{Offer, Throughput};

use crate::call::Call;
use crate::errors::Failure;
use crate::header_names::{MINIMUM_THROUGHPUT, OFFER_REPLACE_PENDING};
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, page, read as read_reply};
use crate::{metadata_query, throughput};

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(page(call, "", "Offers", rows(call).await?)?)
}

pub(crate) async fn query(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(metadata_query::answer(call, "", "Offers", rows(call).await?)?)
}

pub(crate) async fn read(call: &Call<'_>) -> Result<Reply, Failure> {
    let offer = call.account.definitions().offer(call.path.offer())?;
    let is_pending = call.account.maintenance().is_throughput_pending(&offer).await?;
    let reply = read_reply(render(&offer, is_pending), offer.etag, &call.headers.preconditions());
    Ok(with_limits(call, reply, &offer, is_pending))
}

pub(crate) async fn replace(call: &Call<'_>) -> Result<Reply, Failure> {
    let rid = call.path.offer();
    let current = call.account.definitions().offer(rid)?;
    let minimum = |wanted: Throughput| call.account.definitions().minimum_throughput(&current, wanted);
    let wanted = throughput::of_replace(&call.body, &current, call.headers, minimum)?;
    let preconditions = call.headers.preconditions();
    let offer = call.account.definitions().replace_offer(&call.context, rid, wanted, &preconditions).await?;
    let is_pending = call.account.maintenance().is_throughput_pending(&offer).await?;
    let body = render(&offer, is_pending);
    let reply = Reply::json(StatusCode::OK, METADATA_WRITE_CHARGE_CENTI, body).with_etag(offer.etag);
    Ok(with_limits(call, reply, &offer, is_pending))
}

fn with_limits(call: &Call<'_>, reply: Reply, offer: &Offer, is_pending: bool) -> Reply {
    let minimum = call.account.definitions().minimum_throughput(offer, offer.throughput);
    let pending = HeaderValue::from_static(if is_pending { "true" } else { "false" });
    reply
        .with_header(MINIMUM_THROUGHPUT.clone(), HeaderValue::from(minimum))
        .with_header(OFFER_REPLACE_PENDING.clone(), pending)
}

async fn rows(call: &Call<'_>) -> Result<Vec<Vec<u8>>, Failure> {
    let offers = call.account.definitions().offers();
    let mut rows = Vec::with_capacity(offers.len());
    for offer in &offers {
        rows.push(render(offer, call.account.maintenance().is_throughput_pending(offer).await?));
    }
    Ok(rows)
}

/// A replace is pending while partitions are still being cut for it. Clients look for that in the document, as tools do
/// in the header.
fn render(offer: &Offer, is_pending: bool) -> Vec<u8> {
    let rid = offer.rid.to_string();
    let mut content = json!({
        "offerThroughput": offer.throughput.current(),
        "offerIsRUPerMinuteThroughputEnabled": false,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": offer.highest_throughput,
            "maxConsumedStorageEverInKB": 0,
        },
        "offerLastReplaceTimestamp": offer.timestamp,
        "isOfferReplacePending": is_pending,
    });
    if let Throughput::Autoscale(autoscale) = offer.throughput {
        content["offerAutopilotSettings"] = json!({
            "tier": 0,
            "maximumTierThroughput": 0,
            "autoUpgrade": false,
            "maxThroughput": autoscale.max_throughput,
        });
        // Clients write into the growth policy of an offer that they read, so it is there unless a replace left it out.
        if !autoscale.hides_growth {
            let increment_percent = autoscale.increment_percent.unwrap_or(0);
            content["offerAutopilotSettings"]["autoUpgradePolicy"] =
                json!({ "throughputPolicy": { "incrementPercent": increment_percent } });
        }
    }
    document(&json!({
        "resource": offer.resource,
        "offerType": "Invalid",
        "offerResourceId": offer.resource_rid,
        "offerVersion": "V2",
        "content": content,
        "id": rid,
        "_rid": rid,
        "_self": format!("offers/{rid}/"),
        "_etag": etag_text(offer.etag),
        "_ts": offer.timestamp,
    }))
}

#[cfg(test)]
mod tests {
    use shardlake_model::{Autoscale, OfferRid};

    use super::*;

    fn rendered(throughput: Throughput) -> serde_json::Value {
        let offer = Offer {
            rid: OfferRid(7),
            resource: "dbs/AAAAAQ==/colls/AAAAAYAAAAE=/".into(),
            resource_rid: "AAAAAYAAAAE=".into(),
            throughput,
            highest_throughput: throughput.maximum(),
            enforced: true,
            timestamp: 5,
            etag: [1; 16],
        };
        serde_json::from_slice(&render(&offer, true)).expect("valid JSON")
    }

    #[test]
    fn manual_and_autoscale_offers_have_the_documented_members() {
        let manual = rendered(Throughput::Manual(400));
        assert_eq!(manual["resource"], "dbs/AAAAAQ==/colls/AAAAAYAAAAE=/");
        assert_eq!(manual["content"]["offerThroughput"], 400);
        assert_eq!(manual["content"]["isOfferReplacePending"], true);
        assert!(manual["content"].get("offerAutopilotSettings").is_none());
        assert_eq!(manual["_self"], format!("offers/{}/", manual["_rid"].as_str().expect("text")));
        let growing = Autoscale { increment_percent: Some(3), ..Autoscale::new(4000) };
        let scaled = rendered(Throughput::Autoscale(growing));
        assert_eq!(scaled["content"]["offerThroughput"], 400);
        let settings = &scaled["content"]["offerAutopilotSettings"];
        assert_eq!(settings["maxThroughput"], 4000);
        assert_eq!(settings["autoUpgradePolicy"]["throughputPolicy"]["incrementPercent"], 3);
        let hiding =
            rendered(Throughput::Autoscale(Autoscale { hides_growth: true, ..Autoscale::new(4000) }));
        assert_eq!(hiding["content"]["offerAutopilotSettings"].get("autoUpgradePolicy"), None);
    }
}
