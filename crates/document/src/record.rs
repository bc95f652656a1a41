//! The stored form of an item: a fixed envelope, a checksum, and the BSON body.
//!
//! | bytes | content (little-endian) |
//! |---|---|
//! | 0 | format version, 2; before 2, bodies had only the kinds that JSON has |
//! | 1..5 | CRC-32 of everything else: the version, then bytes 5.. |
//! | 5 | flags: 1 = the item has its own time to live, 2 = the version came from a change of parts |
//! | 6..14 | LSN of the commit that wrote the item |
//! | 14..22 | time of that commit, seconds since the Unix epoch (`_ts`) |
//! | 22..38 | etag |
//! | 38..46 | item ordinal within its partition |
//! | 46..50 | time to live in seconds, 0 without the flag |
//! | 50..54 | size of the item as JSON text with its system properties, for limits and charges |
//! | 54.. | body |
//!
//! Decoding copies nothing and checks the checksum whenever a record comes from storage. The check costs
//! little next to reading the record, and no damaged byte is ever served. Records that stay in memory
//! afterwards are not checked again ([`Record::decode_again`]). Decoding does not validate the BSON: it was
//! validated when it was written, and the checksum shows that it is unchanged.

use shardlake_stdx::Guid;

use crate::error::DocumentError;
use crate::raw::RawDocument;

const FORMAT_VERSION: u8 = 2;
const CHECKSUM_END: usize = 5;
const BODY_AT: usize = 54;
const FLAG_TTL: u8 = 1;
const FLAG_ALTERED: u8 = 2;

/// The server's data about an item besides its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    pub lsn: u64,
    pub timestamp_seconds: u64,
    pub etag: Guid,
    pub ordinal: u64,
    pub ttl_seconds: Option<i32>,
    /// UTF-8 length of the item as JSON text, system properties included.
    pub json_size_bytes: u32,
    /// A client changed parts of the previous version, with a patch or an update, which change streams
    /// report. Otherwise the client sent the whole item.
    pub is_altered: bool,
}

/// A stored item, borrowed from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    pub envelope: Envelope,
    pub body: RawDocument<'a>,
}

impl<'a> Record<'a> {
    pub fn encode(envelope: &Envelope, body: RawDocument<'_>) -> Vec<u8> {
        let body = body.as_bytes();
        assert!(has_own_length(body), "a body is one whole BSON document");
        let mut out = Vec::with_capacity(BODY_AT + body.len());
        out.push(FORMAT_VERSION);
        out.extend_from_slice(&[0; 4]);
        let ttl = if envelope.ttl_seconds.is_some() { FLAG_TTL } else { 0 };
        out.push(ttl | if envelope.is_altered { FLAG_ALTERED } else { 0 });
        out.extend_from_slice(&envelope.lsn.to_le_bytes());
        out.extend_from_slice(&envelope.timestamp_seconds.to_le_bytes());
        out.extend_from_slice(&envelope.etag.0);
        out.extend_from_slice(&envelope.ordinal.to_le_bytes());
        out.extend_from_slice(&envelope.ttl_seconds.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&envelope.json_size_bytes.to_le_bytes());
        assert_eq!(out.len(), BODY_AT, "the layout above is the layout written");
        out.extend_from_slice(body);
        let checksum = checksum(&out);
        out[1..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        Record::decode_with(bytes, |header| match checksum(bytes) == u32::from_le_bytes(field(header, 1)) {
            true => Ok(()),
            false => Err("checksum mismatch"),
        })
    }

    /// Decodes bytes that [`Record::decode`] has checked before and that have been in memory since, without
    /// their checksum.
    pub fn decode_again(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        Record::decode_with(bytes, |_| Ok(()))
    }

    /// The ordinal in a record, without any other check; the caller must check the checksum.
    pub fn ordinal_in(bytes: &[u8]) -> Result<u64, DocumentError> {
        let header = bytes.first_chunk::<BODY_AT>();
        let header = header.ok_or(DocumentError::CorruptRecord { what: "shorter than its envelope" })?;
        Ok(u64::from_le_bytes(field(header, 38)))
    }

    #[inline]
    fn decode_with(
        bytes: &'a [u8],
        check: impl FnOnce(&[u8; BODY_AT]) -> Result<(), &'static str>,
    ) -> Result<Self, DocumentError> {
        let corrupt = |what| DocumentError::CorruptRecord { what };
        let Some((header, body)) = bytes.split_first_chunk::<BODY_AT>() else {
            return Err(corrupt("shorter than its envelope"));
        };
        if header[0] != FORMAT_VERSION {
            return Err(DocumentError::UnsupportedRecordVersion { version: header[0] });
        }
        check(header).map_err(corrupt)?;
        if !has_own_length(body) || header[5] & !(FLAG_TTL | FLAG_ALTERED) != 0 {
            return Err(corrupt("the envelope contradicts itself"));
        }
        let ttl = i32::from_le_bytes(field(header, 46));
        let envelope = Envelope {
            lsn: u64::from_le_bytes(field(header, 6)),
            timestamp_seconds: u64::from_le_bytes(field(header, 14)),
            etag: Guid(field(header, 22)),
            ordinal: u64::from_le_bytes(field(header, 38)),
            ttl_seconds: (header[5] & FLAG_TTL != 0).then_some(ttl),
            json_size_bytes: u32::from_le_bytes(field(header, 50)),
            is_altered: header[5] & FLAG_ALTERED != 0,
        };
        Ok(Record { envelope, body: RawDocument::assume_valid(body) })
    }
}

fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..1]);
    hasher.update(&record[CHECKSUM_END..]);
    hasher.finalize()
}

fn field<const N: usize>(header: &[u8; BODY_AT], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("the slice has the array's length")
}

fn has_own_length(body: &[u8]) -> bool {
    let length = body.first_chunk().map(|length| i32::from_le_bytes(*length));
    body.len() >= 5 && length.is_some_and(|length| i64::from(length) == body.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseLimits, parse_document};

    fn sample() -> (Envelope, Vec<u8>) {
        let body = parse_document(br#"{"id":"1","price":2.5}"#, &ParseLimits::default()).unwrap();
        let envelope = Envelope {
            lsn: 7,
            timestamp_seconds: 1_700_000_000,
            etag: Guid([9; 16]),
            ordinal: u64::MAX,
            ttl_seconds: Some(-1),
            json_size_bytes: 22,
            is_altered: true,
        };
        let bytes = Record::encode(&envelope, body.raw());
        (envelope, bytes)
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let (envelope, bytes) = sample();
        let record = Record::decode(&bytes).unwrap();
        assert_eq!(record.envelope, envelope);
        assert_eq!(crate::json_size(record.body), envelope.json_size_bytes as usize);
        let without_ttl = Envelope { ttl_seconds: None, is_altered: false, ..envelope };
        let bytes = Record::encode(&without_ttl, record.body);
        assert_eq!(Record::decode(&bytes).unwrap().envelope, without_ttl);
        assert_eq!(Record::decode_again(&bytes), Record::decode(&bytes));
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_detected() {
        let (_, bytes) = sample();
        for index in 0..bytes.len() {
            for flip in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[index] ^= flip;
                assert!(Record::decode(&damaged).is_err(), "byte {index} xor {flip}");
            }
            assert!(Record::decode(&bytes[..index]).is_err());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Record::decode(&longer).is_err());
    }
}
