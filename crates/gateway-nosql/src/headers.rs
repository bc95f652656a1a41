//! Request headers: one pass over the map, and the parsers of their values.
//!
//! Every header that clients are known to send is acted on, refused, or knowingly ignored; the last are listed in
//! [`IGNORED`] so that the decision can be seen. Header names that nobody has met are ignored as HTTP asks.

use http::HeaderMap;
use shardlake_model::{ConsistencyLevel, ETagCondition, Error, Preconditions, Priority, Result};

/// Headers that change nothing here, and why that is right.
#[cfg(test)]
pub(crate) const IGNORED: &[(&str, &str)] = &[
    ("x-ms-version", "one behaviour serves every version in use"),
    ("x-ms-client-id", "who calls does not matter"),
    ("cache-control", "nothing is cached between client and server"),
    ("x-ms-cosmos-correlated-activityid", "the activity id identifies the request"),
    ("x-ms-documentdb-responsecontinuationtokenlimitinkb", "tokens are far below 1 KB"),
    ("x-ms-documentdb-query-parallelizecrosspartitionquery", "a hint for queries"),
    ("x-ms-documentdb-query-enable-scan", "a hint for queries"),
    ("x-ms-documentdb-query-iscontinuationexpected", "a hint for queries"),
    ("x-ms-documentdb-query-emit-traces", "a hint for queries"),
    ("x-ms-cosmos-query-version", "one form of query plans serves every client"),
    ("x-ms-offer-type", "the old fixed sizes; throughput decides"),
    ("x-ms-cosmos-sdk-supportedcapabilities", "partition merge is invisible to clients"),
    ("x-ms-cosmos-allow-tentative-writes", "there is one write region"),
    ("x-ms-cosmos-batch-ordered", "operations always run in order"),
    ("x-ms-dedicatedgateway-max-age", "there is no cache to be stale"),
    ("x-ms-dedicatedgateway-bypass-cache", "there is no cache to bypass"),
    ("x-ms-thinclient-proxy-resource-type", "there is no proxy"),
    ("x-ms-thinclient-proxy-operation-type", "there is no proxy"),
    ("x-ms-cosmos-use-thinclient", "there is no proxy"),
    ("x-ms-noretry-449", "449 is never sent"),
    ("x-ms-cosmos-hub-region-processing-only", "there is one region"),
    ("x-ms-cosmos-is-client-encrypted", "encrypted properties are plain strings to the server"),
    ("x-ms-cosmos-database-rid", "the path decides"),
    ("x-ms-cosmos-allow-cachedreads", "reads are never cached"),
    ("x-ms-force-refresh", "there is no cache to refresh"),
];

/// The values of the headers that are acted on or refused, as they came.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders<'h> {
    pub host: Option<&'h str>,
    pub authorization: Option<&'h str>,
    pub date: Option<&'h str>,
    pub ms_date: Option<&'h str>,
    pub content_type: Option<&'h str>,
    pub partition_key: Option<&'h str>,
    pub range_id: Option<&'h str>,
    pub read_key_type: Option<&'h str>,
    pub start_epk: Option<&'h str>,
    pub end_epk: Option<&'h str>,
    pub max_item_count: Option<&'h str>,
    pub continuation: Option<&'h str>,
    pub is_query: Option<&'h str>,
    pub is_query_plan: Option<&'h str>,
    pub enable_cross_partition: Option<&'h str>,
    pub fan_out: Option<&'h str>,
    pub explain: Option<&'h str>,
    pub populate_query_metrics: Option<&'h str>,
    pub populate_index_metrics: Option<&'h str>,
    pub populate_index_metrics_v2: Option<&'h str>,
    pub populate_query_advice: Option<&'h str>,
    pub supported_features: Option<&'h str>,
    pub is_upsert: Option<&'h str>,
    pub is_batch: Option<&'h str>,
    pub batch_atomic: Option<&'h str>,
    pub batch_continue_on_error: Option<&'h str>,
    pub if_match: Option<&'h str>,
    pub if_none_match: Option<&'h str>,
    pub if_modified_since: Option<&'h str>,
    pub feed_wait: Option<&'h str>,
    pub a_im: Option<&'h str>,
    pub feed_wire_format: Option<&'h str>,
    pub consistency: Option<&'h str>,
    pub session_token: Option<&'h str>,
    pub offer_throughput: Option<&'h str>,
    pub autopilot_settings: Option<&'h str>,
    pub migrate_to_autopilot: Option<&'h str>,
    pub migrate_to_manual: Option<&'h str>,
    pub indexing_directive: Option<&'h str>,
    /// Ids, separated by commas.
    pub pre_triggers: Option<&'h str>,
    pub post_triggers: Option<&'h str>,
    pub excluded_triggers: Option<&'h str>,
    pub script_logging: Option<&'h str>,
    pub populate_quota: Option<&'h str>,
    pub populate_statistics: Option<&'h str>,
    pub prefer: Option<&'h str>,
    pub populate_content: Option<&'h str>,
    /// The formats in which the client takes an answer, and the one that it wants.
    pub supported_formats: Option<&'h str>,
    pub content_format: Option<&'h str>,
    pub intended_rid: Option<&'h str>,
    /// Both may name the SDK; in a browser only the second does. Only `life.rs` goes by them.
    pub user_agent: Option<&'h str>,
    pub ms_user_agent: Option<&'h str>,
    pub throughput_bucket: Option<&'h str>,
    pub priority: Option<&'h str>,
    /// How long resource tokens are to be good for.
    pub expiry_seconds: Option<&'h str>,
}

impl<'h> RequestHeaders<'h> {
    pub fn parse(map: &'h HeaderMap) -> Result<RequestHeaders<'h>> {
        let mut headers = RequestHeaders::default();
        for (name, value) in map {
            let name = name.as_str();
            let Some(slot) = headers.slot(name) else { continue };
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Error::bad_request(format!("the value of header '{name}' is not UTF-8 text")))?;
            // Several header lines of one name are rare; the first counts, as in the reference's own clients. Empty ones count as
            // absent, except that an empty bound of a range is the least one.
            let is_absent = text.is_empty() && !name.ends_with("-epk");
            if slot.is_none() && !is_absent {
                *slot = Some(text.trim());
            }
        }
        Ok(headers)
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<&'h str>> {
        if let Some(name) = name.strip_prefix("x-ms-documentdb-") {
            return self.documentdb_slot(name);
        }
        if let Some(name) = name.strip_prefix("x-ms-cosmos-") {
            return self.cosmos_slot(name);
        }
        Some(match name {
            "host" => &mut self.host,
            "authorization" => &mut self.authorization,
            "date" => &mut self.date,
            "content-type" => &mut self.content_type,
            "if-match" => &mut self.if_match,
            "if-none-match" => &mut self.if_none_match,
            "if-modified-since" => &mut self.if_modified_since,
            "x-shardlake-feed-wait-ms" => &mut self.feed_wait,
            "a-im" => &mut self.a_im,
            "prefer" => &mut self.prefer,
            "x-ms-date" => &mut self.ms_date,
            "user-agent" => &mut self.user_agent,
            "x-ms-useragent" => &mut self.ms_user_agent,
            "x-ms-read-key-type" => &mut self.read_key_type,
            "x-ms-start-epk" => &mut self.start_epk,
            "x-ms-end-epk" => &mut self.end_epk,
            "x-ms-max-item-count" => &mut self.max_item_count,
            "x-ms-continuation" => &mut self.continuation,
            "x-ms-consistency-level" => &mut self.consistency,
            "x-ms-session-token" => &mut self.session_token,
            "x-ms-offer-throughput" => &mut self.offer_throughput,
            "x-ms-indexing-directive" => &mut self.indexing_directive,
            "x-shardlake-fan-out" => &mut self.fan_out,
            "x-shardlake-explain" => &mut self.explain,
            _ => return None,
        })
    }

    fn documentdb_slot(&mut self, name: &str) -> Option<&mut Option<&'h str>> {
        Some(match name {
            "partitionkey" => &mut self.partition_key,
            "partitionkeyrangeid" => &mut self.range_id,
            "isquery" => &mut self.is_query,
            "query-enablecrosspartition" => &mut self.enable_cross_partition,
            "populatequerymetrics" => &mut self.populate_query_metrics,
            // Python's name of what others call x-ms-cosmos-populateindexmetrics.
            "populateindexmetrics" => &mut self.populate_index_metrics,
            "is-upsert" => &mut self.is_upsert,
            "expiry-seconds" => &mut self.expiry_seconds,
            "pre-trigger-include" => &mut self.pre_triggers,
            "post-trigger-include" => &mut self.post_triggers,
            "pre-trigger-exclude" | "post-trigger-exclude" => &mut self.excluded_triggers,
            "script-enable-logging" => &mut self.script_logging,
            "populatequotainfo" => &mut self.populate_quota,
            "populatepartitionstatistics" => &mut self.populate_statistics,
            "content-serialization-format" => &mut self.content_format,
            _ => return None,
        })
    }

    fn cosmos_slot(&mut self, name: &str) -> Option<&mut Option<&'h str>> {
        Some(match name {
            "changefeed-wire-format-version" => &mut self.feed_wire_format,
            "is-query-plan-request" => &mut self.is_query_plan,
            "populateindexmetrics" => &mut self.populate_index_metrics,
            "populateindexmetrics-v2" => &mut self.populate_index_metrics_v2,
            "populatequeryadvice" => &mut self.populate_query_advice,
            "supported-query-features" => &mut self.supported_features,
            "is-batch-request" => &mut self.is_batch,
            "batch-atomic" => &mut self.batch_atomic,
            "batch-continue-on-error" => &mut self.batch_continue_on_error,
            "offer-autopilot-settings" => &mut self.autopilot_settings,
            "migrate-offer-to-autopilot" => &mut self.migrate_to_autopilot,
            "migrate-offer-to-manual-throughput" => &mut self.migrate_to_manual,
            "populate-content-response-on-write" => &mut self.populate_content,
            "intended-collection-rid" => &mut self.intended_rid,
            "priority-level" => &mut self.priority,
            "throughput-bucket" => &mut self.throughput_bucket,
            "supported-serialization-formats" => &mut self.supported_formats,
            _ => return None,
        })
    }

    /// Whether the body is a query, or a query whose plan is asked for.
    pub fn asks_query(&self) -> Result<bool> {
        let query_type = |text: &str| {
            let media_type = text.split(';').next().unwrap_or(text).trim();
            media_type.eq_ignore_ascii_case("application/query+json")
                || media_type.eq_ignore_ascii_case("application/sql")
        };
        Ok(self.content_type.is_some_and(query_type)
            || flag("x-ms-documentdb-isquery", self.is_query)?
            || flag("x-ms-cosmos-is-query-plan-request", self.is_query_plan)?)
    }

    /// Whether the request names triggers, to run or not to run.
    pub fn names_triggers(&self) -> bool {
        self.pre_triggers.is_some() || self.post_triggers.is_some() || self.excluded_triggers.is_some()
    }

    pub fn preconditions(&self) -> Preconditions {
        Preconditions {
            if_match: self.if_match.map(ETagCondition::parse),
            if_none_match: self.if_none_match.map(ETagCondition::parse),
        }
    }

    /// The request's level: the account's, or a weaker one.
    pub fn consistency(&self, account: ConsistencyLevel) -> Result<ConsistencyLevel> {
        let Some(text) = self.consistency else { return Ok(account) };
        let asked = ConsistencyLevel::parse(text)
            .ok_or_else(|| Error::bad_request(format!("the consistency level '{text}' is unknown")))?;
        if asked < account {
            return Err(Error::bad_request(format!(
                "the consistency level '{}' is stronger than the account's, '{}': a request may only weaken it",
                asked.name(),
                account.name()
            )));
        }
        Ok(asked)
    }

    pub fn priority(&self) -> Result<Priority> {
        let Some(text) = self.priority else { return Ok(Priority::default()) };
        Priority::parse(text).ok_or_else(|| {
            Error::bad_request(format!(
                "the value '{text}' of header 'x-ms-cosmos-priority-level' is invalid: use 'High' or 'Low'"
            ))
        })
    }

    /// Whether a write's reply carries the item: an explicit header, else `Prefer`, else yes.
    pub fn wants_content(&self) -> Result<bool> {
        if let Some(text) = self.populate_content {
            return boolean("x-ms-cosmos-populate-content-response-on-write", text);
        }
        let minimal = |part: &str| part.trim().eq_ignore_ascii_case("return=minimal");
        Ok(!self.prefer.is_some_and(|prefer| prefer.split([',', ';']).any(minimal)))
    }

    /// `None` for 0, too, which the Java SDK sends with `TOP 0`.
    pub fn max_items(&self) -> Result<Option<i64>> {
        let Some(text) = self.max_item_count else { return Ok(None) };
        match text.parse() {
            Ok(0) => Ok(None),
            Ok(count) if count == -1 || count > 0 => Ok(Some(count)),
            _ => Err(Error::bad_request(format!(
                "the value '{text}' of header 'x-ms-max-item-count' is invalid: use -1 or a positive number"
            ))),
        }
    }

    /// The range that the request is routed to. Old clients put the container's resource id and a comma before it.
    pub fn range_id(&self) -> Result<Option<u32>> {
        let Some(text) = self.range_id else { return Ok(None) };
        let id = text.rsplit(',').next().unwrap_or(text).trim();
        let invalid =
            |_| Error::bad_request(format!("the partition key range id '{text}' is invalid: it is a number"));
        id.parse().map(Some).map_err(invalid)
    }

    /// What is never silently dropped: triggers to leave out, indexing directives, and throughput buckets outside 1 to 5.
    pub fn refuse_unsupported(&self) -> Result<()> {
        if let Some(names) = self.excluded_triggers {
            return Err(Error::unsupported(format!(
                "headers that exclude triggers are not supported, and the request excludes '{names}': nothing was done; only triggers that a request includes run"
            )));
        }
        if let Some(directive) = self.indexing_directive {
            check_indexing_directive(directive)?;
        }
        if let Some(bucket) = self.throughput_bucket
            && !matches!(bucket.parse(), Ok(1..=5))
        {
            return Err(Error::bad_request(format!(
                "The value '{bucket}' specified for the header 'x-ms-cosmos-throughput-bucket' is invalid. Use 1 to 5."
            )));
        }
        Ok(())
    }
}

/// Refuses directives other than `Default` and `Include`: every item is indexed by the policy.
pub(crate) fn check_indexing_directive(directive: &str) -> Result<()> {
    let is = |name: &str| directive.eq_ignore_ascii_case(name);
    if is("default") || is("include") {
        return Ok(());
    }
    if is("exclude") {
        return Err(Error::unsupported(
            "the indexing directive 'Exclude' is not supported yet: nothing was done; use 'Default' or the container's indexing policy",
        ));
    }
    Err(Error::bad_request(format!(
        "the indexing directive '{directive}' is invalid: use 'Default', 'Include' or 'Exclude'"
    )))
}

/// A flag that may be absent; clients write `True`, `true` and `1`.
pub(crate) fn flag(name: &str, value: Option<&str>) -> Result<bool> {
    value.map_or(Ok(false), |text| boolean(name, text))
}

fn boolean(name: &str, text: &str) -> Result<bool> {
    if text.eq_ignore_ascii_case("true") || text == "1" {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") || text == "0" || text.is_empty() {
        Ok(false)
    } else {
        Err(Error::bad_request(format!(
            "the value '{text}' of header '{name}' is invalid: use 'true' or 'false'"
        )))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use shardlake_model::ErrorKind;

    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("valid"))
            })
            .collect()
    }

    #[test]
    fn a_header_is_acted_on_or_knowingly_ignored_never_both() {
        for (name, why) in IGNORED {
            assert!(RequestHeaders::default().slot(name).is_none(), "{name}");
            assert!(!why.is_empty());
        }
        for name in [
            "x-ms-documentdb-partitionkey",
            "x-ms-documentdb-partitionkeyrangeid",
            "x-ms-documentdb-pre-trigger-include",
            "x-ms-cosmos-intended-collection-rid",
            "x-ms-cosmos-is-batch-request",
            "x-ms-session-token",
            "prefer",
        ] {
            assert!(RequestHeaders::default().slot(name).is_some(), "{name}");
        }
    }

    #[test]
    fn booleans_are_read_in_every_spelling() {
        for (text, expected) in [("true", true), ("True", true), ("1", true), ("FALSE", false), ("0", false)]
        {
            assert_eq!(flag("x", Some(text)).expect("valid"), expected, "{text}");
        }
        assert!(!flag("x", None).expect("absent is false"));
        assert!(flag("x", Some("yes")).is_err());
    }

    #[test]
    fn the_explicit_content_header_beats_prefer() {
        for (pairs, expected) in [
            (vec![], true),
            (vec![("prefer", "return=minimal")], false),
            (vec![("prefer", "wait=5, Return=Minimal")], false),
            (vec![("prefer", "return=representation")], true),
            (
                vec![
                    ("prefer", "return=minimal"),
                    ("x-ms-cosmos-populate-content-response-on-write", "True"),
                ],
                true,
            ),
            (vec![("x-ms-cosmos-populate-content-response-on-write", "false")], false),
        ] {
            let map = map(&pairs);
            let headers = RequestHeaders::parse(&map).expect("valid");
            assert_eq!(headers.wants_content().expect("valid"), expected, "{pairs:?}");
        }
    }

    #[test]
    fn consistency_may_only_be_weakened() {
        let asks = |text, account| {
            RequestHeaders { consistency: Some(text), ..Default::default() }.consistency(account)
        };
        use ConsistencyLevel::*;
        assert_eq!(asks("eventual", Session).expect("weaker"), Eventual);
        assert_eq!(asks("Session", Session).expect("equal"), Session);
        assert_eq!(asks("Strong", Session).expect_err("stronger").kind(), ErrorKind::BadRequest);
        assert!(asks("Loose", Session).is_err());
    }

    #[test]
    fn range_ids_and_page_sizes_parse_or_are_refused() {
        let ranged = |text| RequestHeaders { range_id: Some(text), ..Default::default() }.range_id();
        assert_eq!(ranged("3").expect("valid"), Some(3));
        assert_eq!(ranged("AAAAAYAAAAE=,3").expect("valid"), Some(3));
        assert!(ranged("x").is_err());
        let paged = |text| RequestHeaders { max_item_count: Some(text), ..Default::default() }.max_items();
        assert_eq!(paged("-1").expect("valid"), Some(-1));
        assert_eq!(paged("7").expect("valid"), Some(7));
        assert_eq!(paged("0").expect("valid"), None);
        for text in ["-2", "x", ""] {
            assert!(paged(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_would_change_the_outcome_is_refused_by_name() {
        for (pairs, kind, word) in [
            (("x-ms-documentdb-post-trigger-exclude", "t1"), ErrorKind::Unsupported, "t1"),
            (("x-ms-indexing-directive", "Exclude"), ErrorKind::Unsupported, "Exclude"),
            (("x-ms-indexing-directive", "bogus"), ErrorKind::BadRequest, "bogus"),
            (
                ("x-ms-cosmos-throughput-bucket", "256"),
                ErrorKind::BadRequest,
                "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.",
            ),
        ] {
            let map = map(&[pairs]);
            let error = RequestHeaders::parse(&map).expect("valid").refuse_unsupported().expect_err(word);
            assert_eq!(error.kind(), kind);
            assert!(error.message().contains(word), "{error}");
        }
        for directive in ["Default", "include", ""] {
            let harmless = map(&[
                ("x-ms-documentdb-pre-trigger-exclude", ""),
                ("x-ms-indexing-directive", directive),
                ("x-ms-cosmos-throughput-bucket", "3"),
            ]);
            RequestHeaders::parse(&harmless).expect("valid").refuse_unsupported().expect("accepted");
        }
    }

    #[test]
    fn header_values_that_are_not_text_are_refused() {
        let mut map = HeaderMap::new();
        map.insert("x-ms-documentdb-partitionkey", HeaderValue::from_bytes(b"[\"\xff\"]").expect("opaque"));
        assert!(RequestHeaders::parse(&map).is_err());
    }
}
