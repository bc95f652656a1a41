//! Continuation tokens of queries.
//!
//! `base64url(version u8 | container u32 | query hash u64 | rows… counters 6 × u64 | epk length u8, epk | position | crc32 u32)`.
//! The epk is the lower bound of the range that the position belongs to. A token is good for one query with its parameters,
//! whoever holds it; it never names a partition, so it outlives new cuts of the ranges.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_charge::QueryCounters;
use shardlake_model::{Error, Result};
use shardlake_routing::Epk;

const VERSION: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryToken {
    pub container: u32,
    pub query_hash: u64,
    /// What all pages so far have done: charges are differences of it.
    pub counters: QueryCounters,
    /// Everything below is done.
    pub epk: Epk,
    /// Where to go on in the range that holds `epk`; empty at its start.
    pub position: Vec<u8>,
}

impl QueryToken {
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.container.to_be_bytes());
        bytes.extend_from_slice(&self.query_hash.to_be_bytes());
        for number in self.counters.to_array() {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.push(self.epk.0.len() as u8);
        bytes.extend_from_slice(&self.epk.0);
        bytes.extend_from_slice(&self.position);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Refuses what was not made for this container and query.
    pub fn decode(text: &str, container: u32, query_hash: u64) -> Result<QueryToken> {
        let token = parse(text).ok_or_else(invalid)?;
        if token.container != container || token.query_hash != query_hash {
            return Err(invalid());
        }
        Ok(token)
    }
}

fn invalid() -> Error {
    Error::bad_request("Invalid Continuation Token")
}

fn parse(text: &str) -> Option<QueryToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return None;
    }
    let (&[VERSION], rest) = content.split_first_chunk()? else { return None };
    let (container, rest) = rest.split_first_chunk()?;
    let (query_hash, mut rest) = rest.split_first_chunk()?;
    let mut numbers = [0; QueryCounters::COUNT];
    for number in &mut numbers {
        let (bytes, after) = rest.split_first_chunk()?;
        *number = u64::from_be_bytes(*bytes);
        rest = after;
    }
    let (length, rest) = rest.split_first()?;
    let (epk, position) = rest.split_at_checked(usize::from(*length))?;
    Some(QueryToken {
        container: u32::from_be_bytes(*container),
        query_hash: u64::from_be_bytes(*query_hash),
        counters: QueryCounters::from_array(numbers),
        epk: Epk(epk.to_vec()),
        position: position.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_survive_and_any_change_is_noticed(
            query_hash in any::<u64>(),
            rows in any::<u64>(),
            epk in prop::collection::vec(any::<u8>(), 0..49),
            position in prop::collection::vec(any::<u8>(), 0..520),
            at in any::<prop::sample::Index>(),
        ) {
            let counters = QueryCounters { rows, ..QueryCounters::default() };
            let token = QueryToken { container: 7, query_hash, counters, epk: Epk(epk), position };
            let text = token.encode();
            prop_assert!(text.len() < 1024);
            prop_assert_eq!(QueryToken::decode(&text, 7, query_hash).expect("its own"), token);
            prop_assert!(QueryToken::decode(&text, 8, query_hash).is_err());
            prop_assert!(QueryToken::decode(&text, 7, !query_hash).is_err());
            let mut broken = text.clone().into_bytes();
            let at = at.index(broken.len());
            broken[at] = if broken[at] == b'A' { b'B' } else { b'A' };
            prop_assert!(QueryToken::decode(std::str::from_utf8(&broken).expect("text"), 7, query_hash).is_err());
        }
    }
}
