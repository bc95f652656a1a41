//! The stream of records: a segment row, then length, checksum and row, again and again.

use crate::{Malformed, VERSION};

const SEGMENT: u32 = 0x7fff_d8f0;
const RECORD: u32 = 0x7fff_d8f1;
/// Version, schema, presence bits, length.
const SEGMENT_BYTES: u32 = 10;
/// Version, schema, length, checksum.
const RECORD_BYTES: usize = 13;

/// The bytes that are not read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'b>(pub &'b [u8]);

impl<'b> Input<'b> {
    pub fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number in LEB128, of at most 32 bits.
    pub fn varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| Malformed::WrongLength);
            }
        }
        Err(Malformed::WrongLength)
    }

    /// Bytes behind their length.
    pub fn sized(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| Malformed::TooShort)?)
    }

    /// The version byte and the schema that a row begins with.
    pub fn schema(&mut self) -> Result<u32, Malformed> {
        match self.byte()? {
            VERSION => self.u32(),
            _ => Err(Malformed::WrongVersion),
        }
    }

    pub fn expect_schema(&mut self, schema: u32) -> Result<(), Malformed> {
        match self.schema()? {
            found if found == schema => Ok(()),
            found => Err(Malformed::WrongSchema(found)),
        }
    }
}

/// The rows of a stream. It ends after the first error.
#[derive(Debug, Clone)]
pub(crate) struct Records<'b> {
    input: Input<'b>,
}

impl<'b> Records<'b> {
    pub fn new(body: &'b [u8]) -> Result<Records<'b>, Malformed> {
        let mut input = Input(body);
        input.expect_schema(SEGMENT)?;
        // A segment may carry a comment, which no client of batches sends. A wrong length must not hide operations.
        if (input.byte()?, input.u32()?) != (1, SEGMENT_BYTES) {
            return Err(Malformed::WrongSegment);
        }
        Ok(Records { input })
    }

    fn read(&mut self) -> Result<&'b [u8], Malformed> {
        self.input.expect_schema(RECORD)?;
        let length = usize::try_from(self.input.u32()?).map_err(|_| Malformed::TooShort)?;
        let checksum = self.input.u32()?;
        let row = self.input.take(length)?;
        if crc32fast::hash(row) != checksum {
            return Err(Malformed::WrongChecksum);
        }
        Ok(row)
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<&'b [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.input.0.is_empty() {
            return None;
        }
        let row = self.read();
        if row.is_err() {
            self.input.0 = &[];
        }
        Some(row)
    }
}

/// Begins a body of operations or results.
pub fn start(out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend_from_slice(&SEGMENT.to_le_bytes());
    out.push(1);
    out.extend_from_slice(&SEGMENT_BYTES.to_le_bytes());
}

/// Adds a record, whose row `write` adds.
pub(crate) fn write_record(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(VERSION);
    out.extend_from_slice(&RECORD.to_le_bytes());
    let header = out.len();
    let row = header + RECORD_BYTES - 5;
    out.resize(row, 0);
    write(out);
    let length = u32::try_from(out.len() - row).expect("a row is no larger than an item and its names");
    let checksum = crc32fast::hash(&out[row..]);
    out[header..header + 4].copy_from_slice(&length.to_le_bytes());
    out[header + 4..row].copy_from_slice(&checksum.to_le_bytes());
}

pub(crate) fn write_varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_456, u32::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, number);
            let mut input = Input(&bytes);
            assert_eq!((input.varint(), input.0.len()), (Ok(number), 0), "{number}");
            assert_eq!(Input(&bytes[..bytes.len() - 1]).varint(), Err(Malformed::TooShort), "{number}");
        }
        for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x1f][..], &[0x80; 6]] {
            assert_eq!(Input(bytes).varint(), Err(Malformed::WrongLength));
        }
    }

    #[test]
    fn a_segment_row_has_its_own_length_and_no_comment() {
        let segment = |bits: u8, length: u32, rest: &[u8]| {
            let head = [&[VERSION][..], &SEGMENT.to_le_bytes(), &[bits], &length.to_le_bytes()].concat();
            [&head, rest].concat()
        };
        assert_eq!(Records::new(&segment(1, 10, &[])).map(Iterator::count), Ok(0));
        for (bits, length) in [(0, 10), (3, 10), (1, 9), (1, 14), (1, u32::MAX)] {
            let refused = Records::new(&segment(bits, length, b"\x03abc")).err();
            assert_eq!(refused, Some(Malformed::WrongSegment), "{bits} {length}");
        }
    }
}
