//! Request context: the parts of a request besides the operation itself.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shardlake_stdx::{Clock, Guid, Timestamp};

use crate::AnswerSpace;

/// The five levels of the reference, strongest first; a request may only weaken the account's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum ConsistencyLevel {
    Strong,
    BoundedStaleness,
    #[default]
    Session,
    ConsistentPrefix,
    Eventual,
}

impl ConsistencyLevel {
    /// Strong and bounded-staleness reads are charged twice, as in the reference.
    pub fn read_charge_factor(self) -> u64 {
        match self {
            ConsistencyLevel::Strong | ConsistencyLevel::BoundedStaleness => 2,
            _ => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ConsistencyLevel::Strong => "Strong",
            ConsistencyLevel::BoundedStaleness => "BoundedStaleness",
            ConsistencyLevel::Session => "Session",
            ConsistencyLevel::ConsistentPrefix => "ConsistentPrefix",
            ConsistencyLevel::Eventual => "Eventual",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        use ConsistencyLevel::*;
        [Strong, BoundedStaleness, Session, ConsistentPrefix, Eventual]
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// A session's position: the LSN it has seen of each partition key range it has touched.
///
/// Text form per range: `{range id}:{version}#{LSN}`, several joined by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionToken {
    pub entries: Vec<SessionEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    pub range_id: u32,
    pub version: i64,
    pub lsn: i64,
}

impl SessionToken {
    /// `None` when the text is not a session token.
    pub fn parse(text: &str) -> Option<SessionToken> {
        let mut entries = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (range_id, vector) = part.split_once(':')?;
            let mut segments = vector.split('#');
            let first: i64 = segments.next()?.parse().ok()?;
            // The oldest clients send only the LSN.
            let (version, lsn) = match segments.next() {
                Some(lsn) => (first, lsn.parse().ok()?),
                None => (-1, first),
            };
            for region in segments {
                let (id, local) = region.split_once('=')?;
                id.parse::<u32>().ok()?;
                local.parse::<i64>().ok()?;
            }
            entries.push(SessionEntry { range_id: range_id.parse().ok()?, version, lsn });
        }
        Some(SessionToken { entries })
    }

    /// The newest position seen of a range.
    pub fn entry_of(&self, range_id: u32) -> Option<SessionEntry> {
        let of_range = self.entries.iter().filter(|entry| entry.range_id == range_id);
        of_range.max_by_key(|entry| (entry.version, entry.lsn)).copied()
    }
}

/// A condition on an item's current etag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ETagCondition {
    /// `*`: any existing item.
    Any,
    /// One of the listed etags, without their quotes.
    OneOf(Vec<String>),
}

impl ETagCondition {
    /// Reads a header value: `*`, or etags with or without quotes or a `W/` mark, separated by commas.
    pub fn parse(text: &str) -> ETagCondition {
        let text = text.trim();
        if text == "*" {
            return ETagCondition::Any;
        }
        let unquoted = |part: &str| part.trim().trim_start_matches("W/").trim_matches('"').to_owned();
        ETagCondition::OneOf(text.split(',').map(unquoted).collect())
    }

    /// Whether an existing item with this etag satisfies the condition.
    pub fn matches(&self, etag: &Guid) -> bool {
        match self {
            ETagCondition::Any => true,
            ETagCondition::OneOf(tags) => {
                let ascii = etag.to_ascii();
                tags.iter().any(|tag| tag.as_bytes().eq_ignore_ascii_case(&ascii))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Preconditions {
    pub if_match: Option<ETagCondition>,
    pub if_none_match: Option<ETagCondition>,
}

/// The order in which requests yield when throughput is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Priority {
    /// The server's own work, outside every budget.
    System,
    #[default]
    High,
    Low,
    /// The server's own work that pays, after everything else. No client waits for it.
    Background,
}

impl Priority {
    /// Parses a priority that a client may request.
    pub fn parse(name: &str) -> Option<Self> {
        let known = [("High", Priority::High), ("Low", Priority::Low)];
        known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, priority)| priority)
    }
}

/// Passed down the call chain with every request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub activity_id: Guid,
    /// Wall-clock time at which the request was accepted; becomes `_ts` of the items it writes.
    pub now: Timestamp,
    /// In terms of [`Clock::elapsed`]; long operations stop and report a timeout past it.
    pub deadline: Duration,
    pub consistency: ConsistencyLevel,
    pub session: Option<SessionToken>,
    pub priority: Priority,
    /// Limits the memory of answers that wait for their clients; `None` for internal requests.
    pub answer_space: Option<Arc<dyn AnswerSpace>>,
}

impl RequestContext {
    /// A context for work the server does on its own behalf, and for tests.
    pub fn internal(clock: &Clock, activity_id: Guid) -> Self {
        RequestContext {
            activity_id,
            now: clock.now(),
            deadline: clock.elapsed() + Duration::from_secs(3600),
            consistency: ConsistencyLevel::Session,
            session: None,
            priority: Priority::System,
            answer_space: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_tokens_of_every_known_shape_parse() {
        let token = SessionToken::parse("0:-1#42,3:0#7#0=7#1=9").expect("valid");
        let lsn_of = |token: &SessionToken, range| token.entry_of(range).map(|entry| entry.lsn);
        assert_eq!(lsn_of(&token, 0), Some(42));
        assert_eq!(lsn_of(&token, 3), Some(7));
        assert_eq!(lsn_of(&token, 9), None);
        assert_eq!(lsn_of(&SessionToken::parse("1:55").expect("bare LSN"), 1), Some(55));
        let newest = SessionToken::parse("0:2#9,0:3#1").expect("valid").entry_of(0).expect("named");
        assert_eq!((newest.version, newest.lsn), (3, 1));
        for broken in ["x", "0:a#1", "0:1#x", "0:1#2#3", "a:1#2", "0:1#2#x=1"] {
            assert_eq!(SessionToken::parse(broken), None, "{broken}");
        }
        assert_eq!(SessionToken::parse("").expect("empty").entries, vec![]);
    }

    #[test]
    fn etag_conditions_ignore_quotes_and_weak_marks() {
        let etag = Guid([0xab; 16]);
        for text in [
            "*",
            &format!("\"{etag}\""),
            &format!("W/\"{etag}\""),
            &format!("\"x\", \"{etag}\""),
            &etag.to_string(),
        ] {
            assert!(ETagCondition::parse(text).matches(&etag), "{text}");
        }
        assert!(!ETagCondition::parse("\"x\"").matches(&etag));
    }
}
