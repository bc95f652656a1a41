//! Throughput as clients write it: two headers at creation, an offer's `content` afterwards.
//!
//! Numbers may be negative on the wire; such a request gets the same answer as any other below the minimum. The account
//! checks the other rules.

use serde::{Deserialize, Deserializer};
use shardlake_model::{Autoscale, Error, Limits, Offer, Result, Throughput};

use crate::headers::{RequestHeaders, flag};
use crate::known_members;

/// `x-ms-cosmos-offer-autopilot-settings`, and the member of an offer.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AutoscaleSettings {
    max_throughput: Option<i64>,
    auto_upgrade_policy: Option<UpgradePolicy>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UpgradePolicy {
    throughput_policy: Option<GrowthPolicy>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GrowthPolicy {
    increment_percent: Option<u64>,
}

#[derive(Deserialize)]
struct OfferBody {
    #[serde(default, deserialize_with = "given")]
    id: Option<Option<String>>,
    #[serde(default, rename = "_rid", deserialize_with = "given")]
    rid: Option<Option<String>>,
    content: OfferContent,
}

/// `null` is given; only a member that is absent is not.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfferContent {
    #[serde(default)]
    offer_throughput: Option<i64>,
    #[serde(default)]
    offer_autopilot_settings: Option<AutoscaleSettings>,
}

/// Members of an offer that a replace does not read. Clients send back the whole offer.
const OF_SHOWN_OFFERS: [&str; 15] = [
    "_self",
    "_etag",
    "_ts",
    "resource",
    "offerResourceId",
    "offerType",
    "offerVersion",
    "content.offerIsRUPerMinuteThroughputEnabled",
    "content.offerMinimumThroughputParameters",
    "content.offerLastReplaceTimestamp",
    "content.collectionThroughputInfo",
    "content.isOfferReplacePending",
    "content.offerAutopilotSettings.tier",
    "content.offerAutopilotSettings.maximumTierThroughput",
    "content.offerAutopilotSettings.autoUpgrade",
];

/// The throughput of a creation; `None` shares the database's throughput or takes none.
pub(crate) fn of_headers(headers: &RequestHeaders<'_>) -> Result<Option<Throughput>> {
    let limits = Limits::default();
    match (headers.offer_throughput, headers.autopilot_settings) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Error::bad_request(
            "manual throughput ('x-ms-offer-throughput') and autoscale settings ('x-ms-cosmos-offer-autopilot-settings') exclude each other: send one",
        )),
        (Some(text), None) => {
            let units = text.parse().map_err(|_| {
                Error::bad_request(format!(
                    "the value '{text}' of header 'x-ms-offer-throughput' is not a number"
                ))
            })?;
            manual(units, limits.throughput_min).map(Some)
        }
        (None, Some(text)) => {
            let settings: AutoscaleSettings = serde_json::from_str(text).map_err(|error| {
                Error::bad_request(format!(
                    "the header 'x-ms-cosmos-offer-autopilot-settings' is not valid: {error}"
                ))
            })?;
            settings.read(limits.autoscale_max_throughput_min).map(Some)
        }
    }
}

/// The throughput of a creation whose body may have `offerThroughput`, too.
pub(crate) fn of_creation(
    headers: &RequestHeaders<'_>,
    in_body: Option<&serde_json::Value>,
) -> Result<Option<Throughput>> {
    let in_headers = of_headers(headers)?;
    let Some(in_body) = in_body else { return Ok(in_headers) };
    let units = in_body.as_i64().ok_or_else(|| {
        Error::bad_request(format!("the value {in_body} of 'offerThroughput' is not a whole number"))
    })?;
    let own = manual(units, Limits::default().throughput_min)?;
    match in_headers {
        Some(given) if given != own => Err(Error::bad_request(format!(
            "the body's 'offerThroughput' {units} is not the throughput of the headers: send one of them"
        ))),
        _ => Ok(Some(own)),
    }
}

/// The throughput that a replace of `offer` requests. A change between manual and autoscale needs its header, as in the reference, so
/// that editing a document cannot change the billing model by accident. `minimum` is the account's rule.
pub(crate) fn of_replace(
    body: &[u8],
    offer: &Offer,
    headers: &RequestHeaders<'_>,
    minimum: impl Fn(Throughput) -> u64,
) -> Result<Throughput> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let OfferBody { id, rid, content } = known_members::read(&mut json, &OF_SHOWN_OFFERS)
        .map_err(|error| Error::bad_request(format!("the offer is not valid: {error}")))??;
    for (member, value) in [("id", id), ("_rid", rid)] {
        let Some(value) = value else { continue };
        if !value.as_ref().is_some_and(|value| offer.rid.same_text(value)) {
            return Err(Error::bad_request(format!(
                "the offer's '{member}' is '{}', but the link names offer '{}': send the offer as it was read",
                value.as_deref().unwrap_or("null"),
                offer.rid
            )));
        }
    }
    let to_autoscale = flag("x-ms-cosmos-migrate-offer-to-autopilot", headers.migrate_to_autopilot)?;
    let to_manual = flag("x-ms-cosmos-migrate-offer-to-manual-throughput", headers.migrate_to_manual)?;
    let asked = content.offer_autopilot_settings.filter(|settings| settings.max_throughput.is_some());
    match offer.throughput {
        _ if to_autoscale && to_manual => Err(Error::bad_request(
            "an offer cannot be migrated to autoscale and to manual throughput at once",
        )),
        Throughput::Manual(_) if to_autoscale && asked.is_some() => Err(Error::bad_request(
            "the content of an offer that is migrated to autoscale must not contain autopilotSettings: leave them out, and set 'maxThroughput' by a replace afterwards",
        )),
        Throughput::Manual(units) if to_autoscale => {
            let start = |max_throughput| Throughput::Autoscale(Autoscale::new(max_throughput));
            Ok(start(units.next_multiple_of(1000).max(minimum(start(0)))))
        }
        Throughput::Autoscale(autoscale) if to_manual => {
            Ok(Throughput::Manual(autoscale.max_throughput.max(minimum(Throughput::Manual(0)))))
        }
        Throughput::Manual(_) if asked.is_some() => Err(Error::bad_request(
            "the offer has manual throughput: send header 'x-ms-cosmos-migrate-offer-to-autopilot' to change it to autoscale",
        )),
        Throughput::Manual(_) => {
            let units = content
                .offer_throughput
                .ok_or_else(|| Error::bad_request("the offer's content has no 'offerThroughput'"))?;
            manual(units, minimum(Throughput::Manual(0)))
        }
        Throughput::Autoscale(_) => {
            let current = offer.throughput.current() as i64;
            if asked.is_none() || content.offer_throughput.is_some_and(|units| units != current) {
                return Err(Error::bad_request(
                    "the offer is autoscale: change 'offerAutopilotSettings.maxThroughput', or send header 'x-ms-cosmos-migrate-offer-to-manual-throughput' to make it manual",
                ));
            }
            let any = Throughput::Autoscale(Autoscale::new(0));
            let settings = asked.unwrap_or_default();
            let hides_growth = settings.auto_upgrade_policy.is_none();
            let Throughput::Autoscale(wanted) = settings.read(minimum(any))? else { return Ok(any) };
            Ok(Throughput::Autoscale(Autoscale { hides_growth, ..wanted }))
        }
    }
}

impl AutoscaleSettings {
    fn read(&self, minimum: u64) -> Result<Throughput> {
        let max = self
            .max_throughput
            .ok_or_else(|| Error::bad_request("the autoscale settings have no 'maxThroughput'"))?;
        let growth = self.auto_upgrade_policy.as_ref().and_then(|policy| policy.throughput_policy.as_ref());
        let increment_percent = growth.and_then(|policy| policy.increment_percent);
        Ok(Throughput::Autoscale(Autoscale {
            increment_percent,
            ..Autoscale::new(not_negative(max, minimum)?)
        }))
    }
}

fn manual(units: i64, minimum: u64) -> Result<Throughput> {
    not_negative(units, minimum).map(Throughput::Manual)
}

fn not_negative(units: i64, minimum: u64) -> Result<u64> {
    u64::try_from(units).map_err(|_| {
        Error::bad_request(format!(
            "Requested throughput {units} is less than required minimum throughput {minimum}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use shardlake_model::OfferRid;

    use super::*;

    fn offer(throughput: Throughput) -> Offer {
        Offer {
            rid: OfferRid(1),
            resource: "dbs/AAAAAQ==/".into(),
            resource_rid: "AAAAAQ==".into(),
            throughput,
            highest_throughput: throughput.maximum(),
            enforced: true,
            timestamp: 0,
            etag: [0; 16],
        }
    }

    fn autoscale(max_throughput: u64, increment_percent: Option<u64>) -> Throughput {
        Throughput::Autoscale(Autoscale { increment_percent, ..Autoscale::new(max_throughput) })
    }

    fn replace(from: Throughput, headers: &RequestHeaders<'_>, content: &str) -> Result<Throughput> {
        let offer = offer(from);
        let body = format!(r#"{{"content":{content}}}"#);
        of_replace(body.as_bytes(), &offer, headers, |wanted| offer.minimum(wanted, &Limits::default()))
    }

    #[test]
    fn creation_headers_are_read_and_exclude_each_other() {
        let none = RequestHeaders::default;
        assert_eq!(of_headers(&none()).expect("nothing"), None);
        let manual = RequestHeaders { offer_throughput: Some("400"), ..none() };
        assert_eq!(of_headers(&manual).expect("manual"), Some(Throughput::Manual(400)));
        let settings =
            r#"{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":3}}}"#;
        let scaled = RequestHeaders { autopilot_settings: Some(settings), ..none() };
        assert_eq!(of_headers(&scaled).expect("autoscale"), Some(autoscale(4000, Some(3))));
        let both =
            RequestHeaders { offer_throughput: Some("400"), autopilot_settings: Some(settings), ..none() };
        assert!(of_headers(&both).expect_err("both").message().contains("exclude each other"));
        let text = RequestHeaders { offer_throughput: Some("many"), ..none() };
        assert!(of_headers(&text).is_err());
    }

    #[test]
    fn negative_numbers_are_below_the_minimum() {
        let settings =
            RequestHeaders { autopilot_settings: Some(r#"{"maxThroughput":-200}"#), ..Default::default() };
        assert_eq!(
            of_headers(&settings).expect_err("negative").message(),
            "Requested throughput -200 is less than required minimum throughput 1000"
        );
    }

    #[test]
    fn a_replace_changes_the_number_of_its_own_kind() {
        let none = RequestHeaders::default();
        let manual = Throughput::Manual(400);
        assert_eq!(
            replace(manual, &none, r#"{"offerThroughput":1000}"#).expect("more"),
            Throughput::Manual(1000)
        );
        let scaled = autoscale(5000, None);
        let content = r#"{"offerThroughput":500,"offerAutopilotSettings":{"maxThroughput":7000}}"#;
        let growth = |wanted: Throughput| match wanted {
            Throughput::Autoscale(autoscale) => {
                Some((autoscale.max_throughput, autoscale.increment_percent, autoscale.hides_growth))
            }
            Throughput::Manual(_) => None,
        };
        let without = replace(scaled, &none, content).expect("more");
        assert_eq!(growth(without), Some((7000, None, true)), "the policy is replaced with nothing");
        let content = r#"{"offerAutopilotSettings":{"maxThroughput":7000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":2}}}}"#;
        assert_eq!(growth(replace(scaled, &none, content).expect("more")), Some((7000, Some(2), false)));
        for (from, content, word) in [
            (manual, r#"{"offerThroughput":-1}"#, "less than required minimum throughput 400"),
            (manual, "{}", "no 'offerThroughput'"),
            (
                manual,
                r#"{"offerThroughput":400,"offerAutopilotSettings":{"maxThroughput":4000}}"#,
                "migrate-offer-to-autopilot",
            ),
            (scaled, r#"{"offerThroughput":400}"#, "migrate-offer-to-manual"),
            (
                scaled,
                r#"{"offerThroughput":800,"offerAutopilotSettings":{"maxThroughput":5000}}"#,
                "autoscale",
            ),
        ] {
            let error = replace(from, &none, content).expect_err(content);
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn migrations_need_their_header() {
        let to_autoscale = RequestHeaders { migrate_to_autopilot: Some("true"), ..Default::default() };
        let to_manual = RequestHeaders { migrate_to_manual: Some("true"), ..Default::default() };
        let content = r#"{"offerThroughput":1400}"#;
        assert_eq!(
            replace(Throughput::Manual(1400), &to_autoscale, content).expect("migrated"),
            autoscale(2000, None)
        );
        assert_eq!(
            replace(Throughput::Manual(400), &to_autoscale, content).expect("migrated"),
            autoscale(1000, None)
        );
        assert_eq!(
            replace(autoscale(4000, None), &to_manual, content).expect("migrated"),
            Throughput::Manual(4000)
        );
        let both = r#"{"offerThroughput":400,"offerAutopilotSettings":{"maxThroughput":4000}}"#;
        let refused = replace(Throughput::Manual(400), &to_autoscale, both).expect_err("settings too");
        assert!(refused.message().contains("must not contain autopilotSettings"), "{refused}");
    }
}
