//! The stored form of an item: a fixed envelope, a checksum, and the BSON body.
//!
//! | bytes | content (little-endian) |
//! |---|---|
//! | 0 | format version, 3 |
//! | 1..5 | CRC-32 of everything else: the version, then bytes 5.. |
//! | 5 | flags: 1 = the item has its own time to live, 2 = the version came from a change of parts |
//! | 6..14 | LSN of the commit that wrote the item |
//! | 14..22 | time of the version: 48 bits of milliseconds since the Unix epoch, and 16 of a counter |
//! | 22..38 | etag |
//! | 38..46 | item ordinal within its partition |
//! | 46..50 | time to live in seconds, 0 without the flag |
//! | 50..54 | size of the item as JSON text with its system properties, for limits and charges |
//! | 54 | region that wrote the version, 0 where an account has one |
//! | 55.. | body |
//!
//! Version 2 is read for ever, and written anew only by writes. It has whole seconds at 14..22 and its body
//! at 54.., without a region. Before version 2, bodies had only the kinds that JSON has.
//!
//! Decoding copies nothing and checks the checksum whenever a record comes from storage. The check costs
//! little next to reading the record, and no damaged byte is ever served. Records that stay in memory
//! afterwards are not checked again ([`Record::decode_again`]). Decoding does not validate the BSON: it was
//! validated when it was written, and the checksum shows that it is unchanged.

use shardlake_stdx::{Guid, HybridTime};

use crate::error::DocumentError;
use crate::raw::RawDocument;

const FORMAT_VERSION: u8 = 3;
/// Written by earlier programs.
const WITH_SECONDS: u8 = 2;
const CHECKSUM_END: usize = 5;
const BODY_AT: usize = 55;
/// Length of an envelope of version 2, and place of the region in later ones.
const REGION_AT: usize = 54;
const FLAG_TTL: u8 = 1;
const FLAG_ALTERED: u8 = 2;

/// The server's data about an item besides its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    pub lsn: u64,
    /// Time of the version; whole seconds without a counter in records of version 2.
    pub time: HybridTime,
    /// Region that wrote the version; 0 where an account has one.
    pub region: u8,
    pub etag: Guid,
    pub ordinal: u64,
    pub ttl_seconds: Option<i32>,
    /// UTF-8 length of the item as JSON text, system properties included.
    pub json_size_bytes: u32,
    /// A client changed parts of the previous version, with a patch or an update, which change streams
    /// report. Otherwise the client sent the whole item.
    pub is_altered: bool,
}

impl Envelope {
    /// `_ts`: seconds since the Unix epoch.
    pub fn timestamp_seconds(&self) -> u64 {
        self.time.seconds()
    }
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
        out.extend_from_slice(&envelope.time.0.to_le_bytes());
        out.extend_from_slice(&envelope.etag.0);
        out.extend_from_slice(&envelope.ordinal.to_le_bytes());
        out.extend_from_slice(&envelope.ttl_seconds.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&envelope.json_size_bytes.to_le_bytes());
        out.push(envelope.region);
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
        let header = bytes.first_chunk::<REGION_AT>();
        let header = header.ok_or(DocumentError::CorruptRecord { what: "shorter than its envelope" })?;
        Ok(u64::from_le_bytes(field(header, 38)))
    }

    #[inline]
    fn decode_with(
        bytes: &'a [u8],
        check: impl FnOnce(&[u8; REGION_AT]) -> Result<(), &'static str>,
    ) -> Result<Self, DocumentError> {
        let corrupt = |what| DocumentError::CorruptRecord { what };
        let Some((header, rest)) = bytes.split_first_chunk::<REGION_AT>() else {
            return Err(corrupt("shorter than its envelope"));
        };
        let version = header[0];
        if version != FORMAT_VERSION && version != WITH_SECONDS {
            return Err(DocumentError::UnsupportedRecordVersion { version });
        }
        check(header).map_err(corrupt)?;
        let time = u64::from_le_bytes(field(header, 14));
        let (time, region, body) = match rest.split_first() {
            _ if version == WITH_SECONDS => (HybridTime::from_seconds(time), 0, rest),
            Some((region, body)) => (HybridTime(time), *region, body),
            None => return Err(corrupt("shorter than its envelope")),
        };
        if !has_own_length(body) || header[5] & !(FLAG_TTL | FLAG_ALTERED) != 0 {
            return Err(corrupt("the envelope contradicts itself"));
        }
        let ttl = i32::from_le_bytes(field(header, 46));
        let envelope = Envelope {
            lsn: u64::from_le_bytes(field(header, 6)),
            time,
            region,
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

fn field<const N: usize>(header: &[u8; REGION_AT], at: usize) -> [u8; N] {
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
            time: HybridTime::from_seconds(1_700_000_000),
            region: 0,
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

    /// The record of [`sample`] as programs before version 3 stored it.
    const STORED_2: &str = "02196254de03070000000000000000f153650000000009090909090909090909090909090909ffffffffffffffff\
                            ffffffff160000001e0000000269640002000000310001707269636500000000000000044000";
    /// The same without its flags.
    const STORED_2_PLAIN: &str = "02a69f596500070000000000000000f153650000000009090909090909090909090909090909ffffffff\
                                  ffffffff00000000160000001e0000000269640002000000310001707269636500000000000000\
                                  044000";
    /// The record of [`sample`] with counter 5 and region 3.
    const STORED_3: &str = "03ba76badf03070000000000000005000068e5cf8b0109090909090909090909090909090909ffffffffffffffff\
                            ffffffff16000000031e0000000269640002000000310001707269636500000000000000044000";

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn the_stored_bytes_stay_the_same() {
        let (envelope, bytes) = sample();
        let record = Record::decode(&bytes).expect("its own");
        let time = HybridTime(envelope.time.0 + 5);
        let written = Record::encode(&Envelope { time, region: 3, ..envelope }, record.body);
        let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, STORED_3);
        let read = Record::decode(&written).expect("its own").envelope;
        assert_eq!((read.time, read.region), (time, 3));
    }

    #[test]
    fn records_of_version_2_are_read() {
        let (envelope, bytes) = sample();
        let plain = Envelope { ttl_seconds: None, is_altered: false, ..envelope };
        for (stored, envelope) in [(STORED_2, envelope), (STORED_2_PLAIN, plain)] {
            let stored = bytes_of(stored);
            let record = Record::decode(&stored).expect("version 2");
            assert_eq!(record.envelope, envelope, "the first time of the second, of region 0");
            assert_eq!(record.envelope.timestamp_seconds(), 1_700_000_000);
            assert_eq!(record.body, Record::decode(&bytes).expect("its own").body);
            assert_eq!(Record::decode_again(&stored), Ok(record));
            assert_eq!(Record::ordinal_in(&stored), Ok(u64::MAX));
            assert_eq!(bytes.len(), stored.len() + 1, "the region");
            every_change_is_detected(&stored);
        }
    }

    #[test]
    fn records_of_later_versions_are_refused_by_name() {
        let (_, mut bytes) = sample();
        for version in [1, 4] {
            bytes[0] = version;
            let error = Record::decode(&bytes).expect_err("refused");
            assert_eq!(error, DocumentError::UnsupportedRecordVersion { version });
        }
        let refused = DocumentError::UnsupportedRecordVersion { version: 4 }.to_string();
        assert!(refused.contains("version 4: use the version of the program that wrote it"), "{refused}");
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_detected() {
        every_change_is_detected(&sample().1);
    }

    fn every_change_is_detected(bytes: &[u8]) {
        for index in 0..bytes.len() {
            for flip in 1..=255 {
                let mut damaged = bytes.to_vec();
                damaged[index] ^= flip;
                assert!(Record::decode(&damaged).is_err(), "byte {index} xor {flip}");
            }
            assert!(Record::decode(&bytes[..index]).is_err());
        }
        let longer = [bytes, &[0]].concat();
        assert!(Record::decode(&longer).is_err());
    }
}
