//! Cosmos binary JSON: the marker bytes shared by reader and writer.
//!
//! The service's SDKs send and read items in this format, a stream of values that each begin with
//! one marker byte:
//!
//! | markers | value |
//! |---|---|
//! | `00`–`1F` | the integer itself |
//! | `20`–`3F` | a name of [`SYSTEM_STRINGS`] |
//! | `40`–`67` | a name of an external dictionary, which no client sends |
//! | `71`–`74` | base64 text, as its bytes |
//! | `75`–`77` | the text of a GUID, two digits in a byte, low half first; `77` in quotes |
//! | `78`–`7A` | text over 16 characters, two in a byte |
//! | `7B`–`7F` | ASCII text in 4, 5, 6 or 7 bits a character |
//! | `80`–`BF` | text; the low six bits are its length |
//! | `C0`–`C2` | text with a length of 1, 2 or 4 bytes |
//! | `C3`–`C6` | text from earlier in the document, by an offset of 1 to 4 bytes |
//! | `C7`–`CE`, `D7`–`DC` | numbers of a fixed width |
//! | `D0` `D1` `D2` | null, false, true |
//! | `D3` | a GUID of 16 bytes |
//! | `DD`–`DF` | bytes with a length of 1, 2 or 4 bytes |
//! | `E0`–`E7` | arrays: empty, of one, with a length, with length and count |
//! | `E8`–`EF` | objects, in the same forms |
//! | `F0`–`F3` | arrays of numbers of one width, and arrays of those |
//!
//! Numbers of several bytes are little-endian. Offsets count from the first byte of the document,
//! [`PREAMBLE`].

/// The first byte of a document. It cannot begin a JSON text, since it is not valid UTF-8.
pub const PREAMBLE: u8 = 0x80;

/// Whether `bytes` are Cosmos binary JSON and not text.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.first() == Some(&PREAMBLE)
}

/// Texts with their own marker, in the order of the markers.
pub(crate) const SYSTEM_STRINGS: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

pub(crate) mod marker {
    //! The first byte of each value; a range's end is exclusive.
    pub const LITERAL_INTEGERS_END: u8 = 0x20;
    pub const SYSTEM_STRINGS_START: u8 = 0x20;
    pub const SYSTEM_STRINGS_END: u8 = 0x40;
    pub const USER_STRINGS_START: u8 = 0x40;
    pub const USER_STRINGS_END: u8 = 0x68;
    pub const BASE64_1: u8 = 0x71;
    pub const BASE64_2: u8 = 0x72;
    pub const BASE64_URL_1: u8 = 0x73;
    pub const BASE64_URL_2: u8 = 0x74;
    pub const GUID_LOWER: u8 = 0x75;
    pub const GUID_UPPER: u8 = 0x76;
    pub const GUID_QUOTED: u8 = 0x77;
    pub const HEX_LOWER: u8 = 0x78;
    pub const HEX_UPPER: u8 = 0x79;
    pub const DATE_TIME: u8 = 0x7A;
    pub const PACKED_4: u8 = 0x7B;
    pub const PACKED_6: u8 = 0x7D;
    pub const PACKED_7_1: u8 = 0x7E;
    pub const PACKED_7_2: u8 = 0x7F;
    pub const SHORT_STRINGS_START: u8 = 0x80;
    pub const SHORT_STRINGS_END: u8 = 0xC0;
    pub const STRING_1: u8 = 0xC0;
    pub const STRING_2: u8 = 0xC1;
    pub const STRING_4: u8 = 0xC2;
    pub const REFERENCE_1: u8 = 0xC3;
    pub const REFERENCE_4: u8 = 0xC6;
    pub const NUMBER_UINT64: u8 = 0xC7;
    pub const NUMBER_UINT8: u8 = 0xC8;
    pub const NUMBER_INT16: u8 = 0xC9;
    pub const NUMBER_INT32: u8 = 0xCA;
    pub const NUMBER_INT64: u8 = 0xCB;
    pub const NUMBER_DOUBLE: u8 = 0xCC;
    pub const FLOAT32: u8 = 0xCD;
    pub const FLOAT64: u8 = 0xCE;
    pub const FLOAT16: u8 = 0xCF;
    pub const NULL: u8 = 0xD0;
    pub const FALSE: u8 = 0xD1;
    pub const TRUE: u8 = 0xD2;
    pub const GUID: u8 = 0xD3;
    pub const UINT8: u8 = 0xD7;
    pub const INT8: u8 = 0xD8;
    pub const INT16: u8 = 0xD9;
    pub const INT32: u8 = 0xDA;
    pub const INT64: u8 = 0xDB;
    pub const UINT32: u8 = 0xDC;
    pub const BYTES_1: u8 = 0xDD;
    pub const BYTES_4: u8 = 0xDF;
    pub const ARRAY_EMPTY: u8 = 0xE0;
    pub const OBJECT_EMPTY: u8 = 0xE8;
    /// Offsets from the marker of a shape's empty container: one value, then lengths of 1, 2, 4 bytes, then
    /// the same with counts.
    pub const OF_ONE: u8 = 1;
    pub const LENGTH_1: u8 = 2;
    pub const LENGTH_2: u8 = 3;
    pub const LENGTH_4: u8 = 4;
    pub const COUNT_1: u8 = 5;
    pub const COUNT_4: u8 = 7;
    pub const NUMBERS_1: u8 = 0xF0;
    pub const NUMBERS_2: u8 = 0xF1;
    pub const NUMBER_ARRAYS_1: u8 = 0xF2;
    pub const NUMBER_ARRAYS_2: u8 = 0xF3;
}
