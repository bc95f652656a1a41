//! Continuation tokens of queries.
//!
//! ```text
//! base64url(version u8 | container u32 | query hash u64 | range varint | counters 9 × varint | pieces u8 | pieces | crc32 u32)
//! range: 0 for a request that names none, else one more than its id
//! piece: min | max | position, each its length as a varint and its bytes
//! ```
//! A piece is a span of the hash space and the position at which every partition within it resumes; an empty
//! position is its start, a zero (which begins no position) its end. Everything below the first piece is
//! read, everything after the last one is still to be read. There are further pieces only where the ranges
//! were cut differently since the token was made: the current partition has moved on, the rest of its former
//! range has not.
//!
//! A token is good for one query with its parameters. For an ordered query, filter and selection may differ
//! (`PreparedQuery::order_identity`). It names the partition key range that its page was requested for, and
//! holds there and in the ranges that replace it. A token of a sibling is invalid, because its rows would be
//! missed silently. Clients can make up tokens, as the checksum is not secret. So every bound is checked, and
//! a page never reads outside the scope of its own request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_charge::QueryCounters;
use shardlake_model::{Error, Result};
use shardlake_routing::{Epk, KeyRange};
use shardlake_stdx::codec::{Reader, Writer};

const VERSION: u8 = 5;
/// A version that names no range.
const VERSION_WITHOUT_RANGE: u8 = 4;
/// A version without the last counter, too: its pages made no steps that counted.
const VERSION_WITHOUT_STEPS: u8 = 3;
const PIECES_MAX: usize = 8;
/// The bytes of a piece whose three parts are empty.
const PIECE_BYTES_MIN: usize = 3;
/// The position of a piece that was read completely.
pub const DONE: &[u8] = &[0];
/// Below 1 KB of text.
const SIZE_BYTES_MAX: usize = 767;
const TEXT_BYTES_MAX: usize = SIZE_BYTES_MAX.div_ceil(3) * 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryToken {
    pub container: u32,
    pub query_hash: u64,
    /// The range that the request named; also `None` in tokens from before ranges were recorded.
    pub range_id: Option<u32>,
    /// The counters of all pages so far: charges are differences of them.
    pub counters: QueryCounters,
    pub pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub span: KeyRange,
    pub position: Vec<u8>,
}

impl QueryToken {
    /// The piece that a part of the query starts in.
    pub fn piece_of(&self, part: &KeyRange) -> Option<&Piece> {
        self.pieces.iter().find(|piece| piece.span.contains(&part.min))
    }

    /// Whether a part of the query was finished before this token was made.
    pub fn is_behind(&self, part: &KeyRange) -> bool {
        let is_done = self.piece_of(part).is_some_and(|piece| piece.position == DONE);
        is_done || self.pieces.first().is_some_and(|piece| part.is_below(&piece.span.min))
    }

    /// The pieces after `part` has been read up to `at`, or to its end.
    pub fn pieces_after(before: Option<&QueryToken>, part: &KeyRange, at: Option<Piece>) -> Vec<Piece> {
        let rest = |piece: &Piece| {
            let min = part.max.clone();
            let is_left =
                !part.is_unbounded_above() && piece.span.contains(&min) && !piece.position.is_empty();
            is_left.then(|| Piece { span: KeyRange { min, max: piece.span.max.clone() }, ..piece.clone() })
        };
        let later = |piece: &&Piece| piece.span.min > part.min && !piece.span.contains(&part.max);
        let old = before.map_or(&[][..], |token| &token.pieces);
        let mut pieces: Vec<Piece> = at.into_iter().collect();
        debug_assert!(
            pieces.iter().all(|piece| piece.span.min >= part.min),
            "a token never leads back before the part that was read"
        );
        pieces.extend(old.iter().filter_map(rest));
        pieces.extend(old.iter().filter(later).cloned());
        if pieces.is_empty() {
            let span = KeyRange { min: part.max.clone(), max: Epk(vec![0xFF]) };
            pieces.push(Piece { span, position: vec![] });
        }
        pieces
    }

    /// The rest of the hash space that the token covers.
    pub fn span(&self) -> KeyRange {
        let (first, last) = (self.pieces.first(), self.pieces.last());
        let (first, last) = first.zip(last).expect("a token has a piece");
        KeyRange { min: first.span.min.clone(), max: last.span.max.clone() }
    }

    /// Refuses a token of a range that is neither the request's nor an ancestor of it.
    pub fn check_range(&self, range_id: u32, ancestors: &[u32]) -> Result<()> {
        let is_of_range = |id: u32| id == range_id || ancestors.contains(&id);
        if self.range_id.is_none_or(is_of_range) { Ok(()) } else { Err(invalid()) }
    }

    /// Cuts off the pieces above the end of the request's part of the hash space.
    pub fn end_pieces_at(pieces: &mut Vec<Piece>, end: &Epk) {
        if end.0.first() == Some(&0xFF) {
            return;
        }
        let is_first = pieces.len() == 1;
        pieces.retain(|piece| is_first || piece.span.min < *end);
        for piece in pieces {
            if piece.span.is_unbounded_above() || piece.span.max > *end {
                piece.span.max = end.clone();
            }
        }
    }

    /// Fails only if ranges were cut again under a query whose positions are long.
    pub fn encode(&self) -> Result<String> {
        assert!(!self.pieces.is_empty(), "a token has a piece");
        debug_assert!(
            are_in_order(&self.pieces),
            "the pieces of a token are disjoint, ascending and not empty"
        );
        let mut out = Writer::default();
        out.byte(VERSION).be(self.container).be(self.query_hash);
        out.varint(self.range_id.map_or(0, |id| u64::from(id) + 1));
        for number in self.counters.to_array() {
            out.varint(number);
        }
        out.byte(self.pieces.len() as u8);
        for Piece { span, position } in &self.pieces {
            for bytes in [&span.min.0, &span.max.0, position] {
                out.varint(bytes.len() as u64).bytes(bytes);
            }
        }
        let checksum = crc32fast::hash(out.written());
        out.be(checksum);
        let bytes = out.into_bytes();
        if self.pieces.len() > PIECES_MAX || bytes.len() > SIZE_BYTES_MAX {
            return Err(Error::bad_request(
                "the container's ranges were cut anew while the query was read: start the query again",
            ));
        }
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Parses a token, and refuses tokens of other containers and of queries with other hashes.
    pub fn decode(text: &str, container: u32, query_hashes: [u64; 2]) -> Result<QueryToken> {
        let token = parse(text).ok_or_else(invalid)?;
        if token.container != container || !query_hashes.contains(&token.query_hash) {
            return Err(invalid());
        }
        Ok(token)
    }

    /// Refuses a token of another partition key.
    pub fn check_key(&self, key: &KeyRange) -> Result<()> {
        if self.piece_of(key).is_some() { Ok(()) } else { Err(invalid()) }
    }
}

fn invalid() -> Error {
    Error::bad_request("Invalid Continuation Token")
}

fn read_bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let length = usize::try_from(reader.varint()?).ok()?;
    reader.take(length).map(<[u8]>::to_vec)
}

fn read_piece(reader: &mut Reader<'_>) -> Option<Piece> {
    let span = KeyRange { min: Epk(read_bytes(reader)?), max: Epk(read_bytes(reader)?) };
    Some(Piece { span, position: read_bytes(reader)? })
}

fn parse(text: &str) -> Option<QueryToken> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return None;
    }
    let mut reader = Reader::new(content);
    let version = reader.byte()?;
    let counters = match version {
        VERSION | VERSION_WITHOUT_RANGE => QueryCounters::COUNT,
        VERSION_WITHOUT_STEPS => QueryCounters::COUNT - 1,
        _ => return None,
    };
    let (container, query_hash) = (reader.be()?, reader.be()?);
    let range_id = match version {
        VERSION => reader.varint()?.checked_sub(1).map(u32::try_from).transpose().ok()?,
        _ => None,
    };
    let mut numbers = [0; QueryCounters::COUNT];
    for number in &mut numbers[..counters] {
        *number = reader.varint()?;
    }
    let count = usize::from(reader.byte()?);
    if !(1..=PIECES_MAX).contains(&count) {
        return None;
    }
    let pieces = reader.list(count, PIECE_BYTES_MIN, read_piece)?;
    let counters = QueryCounters::from_array(numbers);
    let is_whole = reader.is_empty() && are_in_order(&pieces);
    is_whole.then_some(QueryToken { container, query_hash, range_id, counters, pieces })
}

/// Pieces enclose something, and follow one another in the hash space without overlaps.
fn are_in_order(pieces: &[Piece]) -> bool {
    let follows = |pair: &[Piece]| pair[0].span.max <= pair[1].span.min;
    pieces.iter().all(|piece| !piece.span.is_empty()) && pieces.windows(2).all(follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(min: &str, max: &str) -> KeyRange {
        KeyRange::from_hex(min, max).expect("valid")
    }

    fn piece(min: &str, max: &str, position: &[u8]) -> Piece {
        Piece { span: span(min, max), position: position.to_vec() }
    }

    fn token(pieces: Vec<Piece>) -> QueryToken {
        QueryToken { container: 7, query_hash: 1, range_id: None, counters: QueryCounters::default(), pieces }
    }

    #[test]
    fn a_page_leaves_its_position_or_the_start_of_what_follows() {
        let part = span("10", "20");
        let at = piece("10", "20", b"p");
        assert_eq!(QueryToken::pieces_after(None, &part, Some(at.clone())), vec![at.clone()]);
        let next = QueryToken::pieces_after(Some(&token(vec![at])), &part, None);
        assert_eq!(next, [piece("20", "FF", b"")]);
        let token = token(next);
        assert!(token.is_behind(&part) && !token.is_behind(&span("20", "30")));
        assert_eq!(token.piece_of(&span("20", "30")).map(|piece| piece.position.len()), Some(0));
    }

    #[test]
    fn a_position_holds_in_every_part_of_its_range() {
        let parent = token(vec![piece("10", "20", b"parent")]);
        let (low, high) = (span("10", "18"), span("18", "20"));
        assert_eq!(parent.piece_of(&low).map(|piece| &piece.position[..]), Some(&b"parent"[..]));
        assert_eq!(parent.piece_of(&high).map(|piece| &piece.position[..]), Some(&b"parent"[..]));
        assert_eq!(parent.piece_of(&span("20", "30")), None);
        // The lower half moves on, the upper one waits at the parent's position.
        let both = QueryToken::pieces_after(Some(&parent), &low, Some(piece("10", "18", b"low")));
        assert_eq!(both, [piece("10", "18", b"low"), piece("18", "20", b"parent")]);
        let both = token(both);
        assert_eq!(QueryToken::pieces_after(Some(&both), &low, None), [piece("18", "20", b"parent")]);
        let moved = QueryToken::pieces_after(Some(&both), &low, Some(piece("10", "18", b"more")));
        assert_eq!(moved, [piece("10", "18", b"more"), piece("18", "20", b"parent")]);
        let done = QueryToken::pieces_after(Some(&token(vec![piece("18", "20", b"parent")])), &high, None);
        assert_eq!(done, [piece("20", "FF", b"")]);
    }

    #[test]
    fn a_token_is_about_no_more_than_its_request() {
        let mut pieces = vec![piece("10", "18", b"low"), piece("18", "30", b"parent")];
        QueryToken::end_pieces_at(&mut pieces, &span("", "20").max);
        assert_eq!(pieces, [piece("10", "18", b"low"), piece("18", "20", b"parent")]);
        QueryToken::end_pieces_at(&mut pieces, &span("", "18").max);
        assert_eq!(pieces, [piece("10", "18", b"low")]);
        assert_eq!(token(pieces).span(), span("10", "18"));
    }

    #[test]
    fn tokens_of_earlier_versions_go_on() {
        let counters = QueryCounters { rows: 300, charged: 4711, ..QueryCounters::default() };
        let pieces = vec![piece("10", "20", b"position")];
        let token = QueryToken { container: 7, query_hash: 1, range_id: None, counters, pieces };
        // The encoding of version 3: 8 counters.
        let mut bytes = vec![3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xAC, 0x02, 0, 0, 0, 0, 0, 0xE7, 0x24];
        bytes.extend([1, 1, 0x10, 1, 0x20, 8]);
        bytes.extend(b"position");
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        assert_eq!(QueryToken::decode(&URL_SAFE_NO_PAD.encode(&bytes), 7, [1; 2]).expect("known"), token);
        bytes[0] = 2;
        let end = bytes.len() - 4;
        let checksum = crc32fast::hash(&bytes[..end]).to_be_bytes();
        bytes[end..].copy_from_slice(&checksum);
        assert!(QueryToken::decode(&URL_SAFE_NO_PAD.encode(&bytes), 7, [1; 2]).is_err());
    }

    #[test]
    fn the_text_of_a_token_stays_the_same() {
        let counters = QueryCounters { rows: 300, charged: 4711, ..QueryCounters::default() };
        let pieces = vec![piece("10", "20", b"position"), piece("30", "FF", b"")];
        let token = QueryToken {
            container: 7,
            query_hash: 0x0102_0304_0506_0708,
            range_id: Some(2),
            counters,
            pieces,
        };
        assert_eq!(
            token.encode().expect("short"),
            "BQAAAAcBAgMEBQYHCAMArAIAAAAAAOckAAIBEAEgCHBvc2l0aW9uATAB_wCWK2LE"
        );
    }

    proptest! {
        #[test]
        fn tokens_survive_and_any_change_is_noticed(
            query_hash in any::<u64>(),
            range_id in any::<Option<u32>>(),
            rows in any::<u64>(),
            min in prop::collection::vec(any::<u8>(), 0..49),
            position in prop::collection::vec(any::<u8>(), 0..520),
            at in any::<prop::sample::Index>(),
        ) {
            let counters = QueryCounters { rows, ..QueryCounters::default() };
            let span = KeyRange { max: Epk([&min[..], &[0xFF]].concat()), min: Epk(min) };
            let pieces = vec![Piece { span, position }];
            let token = QueryToken { container: 7, query_hash, range_id, counters, pieces };
            let text = token.encode().expect("one piece fits");
            prop_assert!(text.len() < 1024);
            prop_assert_eq!(QueryToken::decode(&text, 7, [!query_hash, query_hash]).expect("its own"), token);
            prop_assert!(QueryToken::decode(&text, 8, [query_hash; 2]).is_err());
            prop_assert!(QueryToken::decode(&text, 7, [!query_hash; 2]).is_err());
            let mut broken = text.clone().into_bytes();
            let at = at.index(broken.len());
            broken[at] = if broken[at] == b'A' { b'B' } else { b'A' };
            prop_assert!(QueryToken::decode(std::str::from_utf8(&broken).expect("text"), 7, [query_hash; 2]).is_err());
        }
    }
}
