//! Request headers: one pass over the map, and the parsers of their values.
//!
//! Every header that a client is known to send has a row in one of four tables, with its effect: headers that are acted on
//! (`acted_on!` below), headers that other parts of the server read, headers that are ignored with a reason, and headers that
//! are refused by name (the last three in `headers/known.rs`). `docs/request-headers.md` is written from the tables. Header names without
//! a row are ignored as HTTP asks.

mod known;

use http::HeaderMap;
use shardlake_model::{ConsistencyLevel, ETagCondition, Error, Preconditions, Priority, Result};

/// The values of the headers that are acted on or refused, as they came.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders<'h> {
    pub version: Option<&'h str>,
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
    pub continuation_limit: Option<&'h str>,
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
    pub feed_previous: Option<&'h str>,
    pub copies_at_least: Option<&'h str>,
    pub a_im: Option<&'h str>,
    pub feed_wire_format: Option<&'h str>,
    pub consistency: Option<&'h str>,
    pub read_strategy: Option<&'h str>,
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
    /// The formats that the client accepts, and the preferred format.
    pub supported_formats: Option<&'h str>,
    pub content_format: Option<&'h str>,
    pub intended_rid: Option<&'h str>,
    /// Both may name the SDK; in a browser only the second does. Only `life.rs` uses them.
    pub user_agent: Option<&'h str>,
    pub ms_user_agent: Option<&'h str>,
    pub throughput_bucket: Option<&'h str>,
    pub priority: Option<&'h str>,
    pub exclude_links: Option<&'h str>,
    /// How long resource tokens are to be good for.
    pub expiry_seconds: Option<&'h str>,
    /// The first header of [`known::REFUSED`], and the feature that it requests.
    pub refused: Option<(&'static str, &'static str)>,
}

/// Declares the headers of one prefix that fill a field, each with its effect for the documentation.
macro_rules! acted_on {
    ($slot:ident, $table:ident, $prefix:literal { $($name:literal => $field:ident: $effect:literal;)* }) => {
        impl<'h> RequestHeaders<'h> {
            fn $slot(&mut self, name: &str) -> Option<&mut Option<&'h str>> {
                Some(match name {
                    $($name => &mut self.$field,)*
                    _ => return None,
                })
            }
        }

        #[cfg(test)]
        const $table: &[(&str, &str)] = &[$((concat!($prefix, $name), $effect),)*];
    };
}

acted_on! { plain_slot, ACTED_ON, "" {
    "authorization" => authorization: "signature or resource token";
    "date" => date: "date that is signed, where `x-ms-date` is absent";
    "x-ms-date" => ms_date: "date that is signed; more than 15 minutes off is 403";
    "x-ms-version" => version: "versions of the service's list and later ones behave alike, others are 400";
    "content-type" => content_type: "`application/query+json` and `application/sql` make a POST a query";
    "if-match" => if_match: "condition of a write";
    "if-none-match" => if_none_match: "condition of a read; start of a change feed";
    "if-modified-since" => if_modified_since: "start of a change feed, as a date in any zone; other texts are ignored";
    "a-im" => a_im: "makes a read of the items, or of the ranges, a change feed; 501 beside a query";
    "prefer" => prefer: "`return=minimal`: answers of writes have no body";
    "user-agent" => user_agent: "the JavaScript SDK's is spared a 410 that it cannot handle";
    "x-ms-useragent" => ms_user_agent: "the same in browsers";
    "x-ms-read-key-type" => read_key_type: "`EffectivePartitionKeyRange`: bounds of a feed; `EffectivePartitionKey` is 501, others 400";
    "x-ms-start-epk" => start_epk: "lower bound of a feed";
    "x-ms-end-epk" => end_epk: "upper bound of a feed";
    "x-ms-max-item-count" => max_item_count: "size of a page; -1 and 0 leave it to the server, other negative numbers are 400";
    "x-ms-continuation" => continuation: "the page behind a token";
    "x-ms-consistency-level" => consistency: "level of a read, the account's or a weaker one; others are 400";
    "x-ms-session-token" => session_token: "position that a read waits for under session consistency; texts that are no token are 400";
    "x-ms-offer-throughput" => offer_throughput: "throughput of a new database or container";
    "x-ms-exclude-system-properties" => exclude_links: "answers with one item leave out `_self` and `_attachments`, also for items that were written without the header";
    "x-ms-indexing-directive" => indexing_directive: "`Default` and `Include` index by the policy; `Exclude` is 501, others 400";
    "x-shardlake-feed-wait-ms" => feed_wait: "an empty page of a change feed waits so long (ours)";
    "x-shardlake-feed-previous" => feed_previous: "`true`: an all-versions feed has the versions before replacements, too (ours)";
    "x-shardlake-copies-at-least" => copies_at_least: "`now`, or session tokens of the source: a read of a global secondary index waits until it has those writes (ours)";
    "x-shardlake-fan-out" => fan_out: "the server merges a query over partitions (ours)";
    "x-shardlake-explain" => explain: "the answer explains a query (ours)";
}}

acted_on! { documentdb_slot, ACTED_ON_OF_DOCUMENTDB, "x-ms-documentdb-" {
    "partitionkey" => partition_key: "partition key";
    "partitionkeyrangeid" => range_id: "physical partition; one that is gone is 410/1002";
    "isquery" => is_query: "makes a POST a query";
    "query-enablecrosspartition" => enable_cross_partition: "leave to read several partitions; without it such a query is 400";
    "populatequerymetrics" => populate_query_metrics: "the answer has `x-ms-documentdb-query-metrics`";
    // Python's name of the header that others call x-ms-cosmos-populateindexmetrics.
    "populateindexmetrics" => populate_index_metrics: "the answer has `x-ms-cosmos-index-utilization`";
    "is-upsert" => is_upsert: "makes a create an upsert";
    "expiry-seconds" => expiry_seconds: "time that resource tokens last";
    "pre-trigger-include" => pre_triggers: "triggers that run before a write";
    "post-trigger-include" => post_triggers: "triggers that run after a write";
    "pre-trigger-exclude" => excluded_triggers: "501: triggers run only where they are named";
    "post-trigger-exclude" => excluded_triggers: "501, the same";
    "script-enable-logging" => script_logging: "the answer has the log of a stored procedure";
    "populatequotainfo" => populate_quota: "the answer has quota, usage and progress of the index";
    "populatepartitionstatistics" => populate_statistics: "a container's document has sizes of its partitions";
    "content-serialization-format" => content_format: "format of the answer: `JsonText` or `CosmosBinary`; unknown ones are 400, `HybridRow` alone is 501";
    "responsecontinuationtokenlimitinkb" => continuation_limit: "0 and texts that are no number are 400; otherwise ignored, since tokens are below 1 KB";
}}

acted_on! { cosmos_slot, ACTED_ON_OF_COSMOS, "x-ms-cosmos-" {
    "changefeed-wire-format-version" => feed_wire_format: "form of a change feed's rows";
    "is-query-plan-request" => is_query_plan: "the answer is the query's plan";
    "populateindexmetrics" => populate_index_metrics: "the answer has `x-ms-cosmos-index-utilization`";
    "populateindexmetrics-v2" => populate_index_metrics_v2: "the same in the newer form";
    "populatequeryadvice" => populate_query_advice: "the answer has `x-ms-cosmos-query-advice`";
    "supported-query-features" => supported_features: "features that a query's plan may need";
    "is-batch-request" => is_batch: "makes a POST a batch or a bulk request";
    "batch-atomic" => batch_atomic: "a batch is one transaction";
    "batch-continue-on-error" => batch_continue_on_error: "a bulk request goes on behind a failed operation";
    "offer-autopilot-settings" => autopilot_settings: "autoscale throughput of a new database or container";
    "migrate-offer-to-autopilot" => migrate_to_autopilot: "throughput becomes autoscale";
    "migrate-offer-to-manual-throughput" => migrate_to_manual: "throughput becomes manual";
    "populate-content-response-on-write" => populate_content: "whether answers of writes have a body";
    "intended-collection-rid" => intended_rid: "container that the client means; another one is 400/1024";
    "priority-level" => priority: "`High` or `Low`: the latter is throttled first; others are 400";
    "throughput-bucket" => throughput_bucket: "1 to 5 are ignored, since there are no buckets; others are 400";
    "supported-serialization-formats" => supported_formats: "formats that the client reads, as `content-serialization-format`";
    "read-consistency-strategy" => read_strategy: "strategy of a read: `Eventual`, `Session`, `LatestCommitted`, and `GlobalStrong` where the account is strong; others are 400, and so is the header beside `x-ms-consistency-level`; writes ignore it";
}}

impl<'h> RequestHeaders<'h> {
    pub fn parse(map: &'h HeaderMap) -> Result<RequestHeaders<'h>> {
        let mut headers = RequestHeaders::default();
        for (name, value) in map {
            let name = name.as_str();
            let Some(slot) = headers.slot(name) else {
                headers.note_refused(name, value.as_bytes());
                continue;
            };
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
        self.plain_slot(name)
    }

    /// Notes a header whose feature is refused; a header that requests nothing is ignored.
    fn note_refused(&mut self, name: &str, value: &[u8]) {
        let asks_nothing = matches!(value.trim_ascii(), b"" | b"0") || value.eq_ignore_ascii_case(b"false");
        if name.starts_with("x-ms-") && !asks_nothing && self.refused.is_none() {
            self.refused = known::REFUSED.iter().find(|(known, _)| *known == name).copied();
        }
    }

    /// Whether the body is a query, or a query whose plan is requested.
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

    /// Refuses versions of the protocol that do not exist.
    pub fn check_version(&self) -> Result<()> {
        match self.version {
            Some(version) if !known::is_version(version) => Err(Error::bad_request(format!(
                "Invalid API version. Ensure a valid x-ms-version header value is passed. Please update to the latest version of Azure Cosmos DB SDK. The request has '{version}'."
            ))),
            _ => Ok(()),
        }
    }

    /// The request's level: the account's, or a weaker one.
    pub fn consistency(&self, account: ConsistencyLevel) -> Result<ConsistencyLevel> {
        if let Some(text) = self.read_strategy {
            return self.consistency_of_strategy(text, account);
        }
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

    /// The level that reads as a strategy does. There is one copy of the data, so that every level reads the latest version; the
    /// strategy decides whether the session token counts, and the charge. Clients send its names exactly and never with a level.
    fn consistency_of_strategy(&self, name: &str, account: ConsistencyLevel) -> Result<ConsistencyLevel> {
        let invalid = |why: &str| {
            Error::bad_request(format!(
                "the value '{name}' of header 'x-ms-cosmos-read-consistency-strategy' is invalid: {why}"
            ))
        };
        let level = match name {
            "Eventual" => ConsistencyLevel::Eventual,
            "Session" => ConsistencyLevel::Session,
            "LatestCommitted" => ConsistencyLevel::BoundedStaleness,
            "GlobalStrong" if account == ConsistencyLevel::Strong => ConsistencyLevel::Strong,
            "GlobalStrong" => {
                return Err(invalid("it needs an account with the consistency level 'Strong'"));
            }
            _ => return Err(invalid("use 'Eventual', 'Session', 'LatestCommitted' or 'GlobalStrong'")),
        };
        match self.consistency {
            None => Ok(level),
            Some(_) => {
                Err(invalid("it stands beside 'x-ms-consistency-level', and a request has one of both"))
            }
        }
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

    /// Refuses values that are invalid wherever they come, and features that are not there: triggers to leave out, and the
    /// headers of [`known::REFUSED`].
    pub fn refuse_unsupported(&self) -> Result<()> {
        if let Some((name, feature)) = self.refused {
            return Err(Error::unsupported(format!(
                "the header '{name}' is not supported: it asks for {feature}; nothing was done"
            )));
        }
        if let Some(limit) = self.continuation_limit
            && !matches!(limit.parse::<i64>(), Ok(-1 | 1..))
        {
            return Err(Error::bad_request(format!(
                "the value '{limit}' of header 'x-ms-documentdb-responsecontinuationtokenlimitinkb' is invalid: use a positive number"
            )));
        }
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
mod tests;
