//! Writes BSON into one growing buffer; lengths and type bytes are filled in once they are known.
//!
//! Values of JSON's kinds (double, string, document, array, boolean, null, int32, int64) are encoded here;
//! values of all other kinds arrive as validated bytes ([`BsonWriter::stored`]).
//!
//! # Property names with U+0000
//! A BSON name ends at the first zero byte, a JSON name may contain one. Such a member is stored as
//! "code with scope" (type 0x0F): the code string is the exact name, the scope is a document whose only
//! member, with an empty name, is the value. The element's own name is the exact name with U+2400 for U+0000.
//! Other names cost nothing more, and no name needs to be unescaped when it is read. A value of type 0x0F
//! with another shape is code with scope; a value from outside with exactly this shape is refused
//! ([`crate::Body::from_bson`]).

pub(crate) mod kind {
    //! BSON type bytes.
    pub const END: u8 = 0x00;
    pub const DOUBLE: u8 = 0x01;
    pub const STRING: u8 = 0x02;
    pub const DOCUMENT: u8 = 0x03;
    pub const ARRAY: u8 = 0x04;
    pub const BINARY: u8 = 0x05;
    pub const UNDEFINED: u8 = 0x06;
    pub const OBJECT_ID: u8 = 0x07;
    pub const BOOL: u8 = 0x08;
    pub const DATE: u8 = 0x09;
    pub const NULL: u8 = 0x0A;
    pub const REGEX: u8 = 0x0B;
    pub const DB_POINTER: u8 = 0x0C;
    pub const CODE: u8 = 0x0D;
    pub const SYMBOL: u8 = 0x0E;
    pub const CODE_WITH_SCOPE: u8 = 0x0F;
    pub const INT32: u8 = 0x10;
    pub const TIMESTAMP: u8 = 0x11;
    pub const INT64: u8 = 0x12;
    pub const DECIMAL128: u8 = 0x13;
    pub const MAX_KEY: u8 = 0x7F;
    pub const MIN_KEY: u8 = 0xFF;
}

/// A name that has been written and waits for its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// The position of the value's type byte.
    pub type_at: usize,
    /// The start of the length of the "code with scope", if the name needs one.
    wrapper_at: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct BsonWriter {
    pub out: Vec<u8>,
}

impl BsonWriter {
    pub fn with_capacity(capacity: usize) -> Self {
        BsonWriter { out: Vec::with_capacity(capacity) }
    }

    pub fn member(&mut self, name: &[u8]) -> Slot {
        if name.contains(&0) {
            return self.wrapped_member(name);
        }
        let type_at = self.out.len();
        self.out.push(kind::END);
        self.out.extend_from_slice(name);
        self.out.push(0);
        Slot { type_at, wrapper_at: None }
    }

    /// A name that the caller appended to `out` itself, right after a placeholder for the type byte at `type_at`.
    pub fn member_in_place(&mut self, type_at: usize, has_nul: bool) -> Slot {
        if has_nul {
            let name = self.out.split_off(type_at + 1);
            self.out.truncate(type_at);
            return self.wrapped_member(&name);
        }
        self.out.push(0);
        Slot { type_at, wrapper_at: None }
    }

    pub fn element(&mut self, index: usize) -> Slot {
        let type_at = self.out.len();
        self.out.push(kind::END);
        push_decimal(index as u64, &mut self.out);
        self.out.push(0);
        Slot { type_at, wrapper_at: None }
    }

    fn wrapped_member(&mut self, name: &[u8]) -> Slot {
        self.out.push(kind::CODE_WITH_SCOPE);
        for byte in name {
            match byte {
                0 => self.out.extend_from_slice("\u{2400}".as_bytes()),
                byte => self.out.push(*byte),
            }
        }
        self.out.push(0);
        let wrapper_at = self.reserve_length();
        self.string_bytes(name);
        self.reserve_length();
        let type_at = self.out.len();
        self.out.extend_from_slice(&[kind::END, 0]);
        Slot { type_at, wrapper_at: Some(wrapper_at) }
    }

    /// Must be called after the value of `slot` is complete.
    pub fn finish(&mut self, slot: Slot) {
        if let Some(wrapper_at) = slot.wrapper_at {
            self.end_document(slot.type_at - 4);
            self.patch_length(wrapper_at);
        }
    }

    /// Returns the position of the document's length, for [`BsonWriter::end_document`].
    pub fn begin_document(&mut self, slot: Slot, kind: u8) -> usize {
        self.out[slot.type_at] = kind;
        self.reserve_length()
    }

    pub fn reserve_length(&mut self) -> usize {
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        length_at
    }

    pub fn end_document(&mut self, length_at: usize) {
        self.out.push(kind::END);
        self.patch_length(length_at);
    }

    pub fn null(&mut self, slot: Slot) {
        self.out[slot.type_at] = kind::NULL;
    }

    pub fn bool(&mut self, slot: Slot, value: bool) {
        self.out[slot.type_at] = kind::BOOL;
        self.out.push(u8::from(value));
    }

    pub fn int(&mut self, slot: Slot, value: i64) {
        match i32::try_from(value) {
            Ok(small) => {
                self.out[slot.type_at] = kind::INT32;
                self.out.extend_from_slice(&small.to_le_bytes());
            }
            Err(_) => {
                self.out[slot.type_at] = kind::INT64;
                self.out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    pub fn double(&mut self, slot: Slot, value: f64) {
        self.out[slot.type_at] = kind::DOUBLE;
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub fn string(&mut self, slot: Slot, value: &str) {
        self.out[slot.type_at] = kind::STRING;
        self.string_bytes(value.as_bytes());
    }

    /// A value of any kind, copied from a valid document.
    pub fn stored(&mut self, slot: Slot, kind: u8, bytes: &[u8]) {
        self.out[slot.type_at] = kind;
        self.out.extend_from_slice(bytes);
    }

    fn string_bytes(&mut self, bytes: &[u8]) {
        let length_at = self.reserve_length();
        self.out.extend_from_slice(bytes);
        self.end_string(length_at);
        debug_assert!(self.out.len() > length_at + 4, "a document has its length and its end");
    }

    /// A BSON string's length counts its terminating zero, but not the length field.
    pub fn end_string(&mut self, length_at: usize) {
        self.out.push(0);
        self.write_length(length_at, self.out.len() - length_at - 4);
    }

    fn patch_length(&mut self, length_at: usize) {
        self.write_length(length_at, self.out.len() - length_at);
    }

    /// Lengths past `i32::MAX` saturate; [`BsonWriter::out`] is then refused as a whole by `Body::from_writer`.
    fn write_length(&mut self, length_at: usize, length: usize) {
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        self.out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

pub(crate) fn push_decimal(mut value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}
