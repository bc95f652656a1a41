//! The header of sixteen bytes before every message.

/// Size of a header, and minimum size of a message.
pub const HEADER_SIZE_BYTES: usize = 16;
/// Maximum size of a message with its header.
pub const MESSAGE_SIZE_BYTES_MAX: usize = 48_000_000;

pub const OP_REPLY: i32 = 1;
pub const OP_QUERY: i32 = 2004;
pub const OP_COMPRESSED: i32 = 2012;
pub const OP_MSG: i32 = 2013;

/// Header of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Of the whole message, with these sixteen bytes.
    pub length: usize,
    pub request_id: i32,
    pub response_to: i32,
    pub opcode: i32,
}

impl Header {
    /// `None` for a length that no message may have.
    pub fn parse(bytes: &[u8; HEADER_SIZE_BYTES]) -> Option<Header> {
        let [length, request_id, response_to, opcode] = [0, 4, 8, 12].map(|at| int(bytes, at));
        let length = usize::try_from(length).ok()?;
        let is_possible = (HEADER_SIZE_BYTES..=MESSAGE_SIZE_BYTES_MAX).contains(&length);
        is_possible.then_some(Header { length, request_id, response_to, opcode })
    }

    /// The bytes behind the header.
    pub fn payload_size_bytes(&self) -> usize {
        self.length - HEADER_SIZE_BYTES
    }

    pub fn bytes(&self) -> [u8; HEADER_SIZE_BYTES] {
        assert!(
            (HEADER_SIZE_BYTES..=i32::MAX as usize).contains(&self.length),
            "the length of a message has its header and fits its field"
        );
        let mut bytes = [0; HEADER_SIZE_BYTES];
        let fields = [self.length as i32, self.request_id, self.response_to, self.opcode];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

fn int(bytes: &[u8; HEADER_SIZE_BYTES], at: usize) -> i32 {
    i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_bytes_and_impossible_lengths_are_none() {
        let header = Header { length: 48_000_000, request_id: -7, response_to: 9, opcode: OP_MSG };
        assert_eq!(Header::parse(&header.bytes()), Some(header));
        for length in [0, 15, 48_000_001, u32::MAX] {
            let mut bytes = header.bytes();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(Header::parse(&bytes), None, "{length}");
        }
    }
}
