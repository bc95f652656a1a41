//! The strings of Cosmos binary JSON: plain, from the dictionary, packed, and references to earlier
//! ones.
//!
//! Each form is appended to the output as UTF-8. Except for references, no form has more than three
//! characters for a byte of the document; `binary_in.rs` counts the appended bytes against the limit of the
//! document.

use crate::binary_format::{SYSTEM_STRINGS, marker};
use crate::binary_input::BinaryInput;
use crate::error::DocumentError;

const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";

pub(crate) fn is_string(marker: u8) -> bool {
    matches!(
        marker,
        marker::SYSTEM_STRINGS_START..marker::USER_STRINGS_END
            | marker::BASE64_1..=marker::REFERENCE_4
            | marker::GUID
            | marker::BYTES_1..=marker::BYTES_4
    )
}

/// Appends the string whose marker, the byte before `reader.at()`, has been read.
pub(crate) fn append(reader: &mut BinaryInput<'_>, marker: u8) -> Result<(), DocumentError> {
    if (marker::REFERENCE_1..=marker::REFERENCE_4).contains(&marker) {
        return reference(reader, marker);
    }
    own(reader, marker)
}

/// Reads a string that is not a reference.
fn own(reader: &mut BinaryInput<'_>, marker: u8) -> Result<(), DocumentError> {
    match marker {
        marker::SYSTEM_STRINGS_START..marker::SYSTEM_STRINGS_END => {
            let text = SYSTEM_STRINGS[usize::from(marker - marker::SYSTEM_STRINGS_START)];
            reader.builder.writer.out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        marker::USER_STRINGS_START..marker::USER_STRINGS_END => {
            let what = "names of a dictionary outside the document (40 to 67) are not supported";
            Err(reader.invalid_at(reader.at() - 1, what))
        }
        marker::BASE64_1 => base64_text(reader, 1, STANDARD),
        marker::BASE64_2 => base64_text(reader, 2, STANDARD),
        marker::BASE64_URL_1 => base64_text(reader, 1, URL_SAFE),
        marker::BASE64_URL_2 => base64_text(reader, 2, URL_SAFE),
        marker::GUID_LOWER => guid_text(reader, HEX_LOWER),
        marker::GUID_UPPER => guid_text(reader, HEX_UPPER),
        marker::GUID_QUOTED => {
            reader.builder.writer.out.push(b'"');
            guid_text(reader, HEX_LOWER)?;
            reader.builder.writer.out.push(b'"');
            Ok(())
        }
        marker::HEX_LOWER => table_text(reader, HEX_LOWER),
        marker::HEX_UPPER => table_text(reader, HEX_UPPER),
        marker::DATE_TIME => table_text(reader, DATE_TIME),
        marker::PACKED_4..=marker::PACKED_6 => {
            let length = reader.length(1)?;
            let base = reader.byte()?;
            packed_text(reader, length, usize::from(4 + marker - marker::PACKED_4), base)
        }
        marker::PACKED_7_1 | marker::PACKED_7_2 => {
            let length = reader.length(if marker == marker::PACKED_7_1 { 1 } else { 2 })?;
            packed_text(reader, length, 7, 0)
        }
        marker::SHORT_STRINGS_START..marker::SHORT_STRINGS_END => {
            plain(reader, usize::from(marker - marker::SHORT_STRINGS_START))
        }
        marker::STRING_1..=marker::STRING_4 => {
            let length = reader.length(1 << (marker - marker::STRING_1))?;
            plain(reader, length)
        }
        marker::GUID => guid(reader),
        marker::BYTES_1..=marker::BYTES_4 => {
            let length = reader.length(1 << (marker - marker::BYTES_1))?;
            let bytes = reader.take(length)?;
            push_base64(bytes, STANDARD, true, &mut reader.builder.writer.out);
            Ok(())
        }
        _ => Err(reader.invalid_at(reader.at() - 1, "a string is expected")),
    }
}

/// Resolves a reference to an earlier string, which ends before the reference and is not a reference itself.
fn reference(reader: &mut BinaryInput<'_>, marker: u8) -> Result<(), DocumentError> {
    let start = reader.at() - 1;
    let wrong = "a reference does not lead to an earlier string";
    let target = reader.length(usize::from(marker - marker::REFERENCE_1) + 1)?;
    let after = reader.at();
    if target == 0 || target >= start {
        return Err(reader.invalid_at(start, wrong));
    }
    reader.seek(target);
    let marker = reader.byte()?;
    if !is_string(marker) || (marker::REFERENCE_1..=marker::REFERENCE_4).contains(&marker) {
        return Err(reader.invalid_at(start, wrong));
    }
    own(reader, marker)?;
    if reader.at() > start {
        return Err(reader.invalid_at(start, wrong));
    }
    reader.seek(after);
    Ok(())
}

fn plain(reader: &mut BinaryInput<'_>, length: usize) -> Result<(), DocumentError> {
    let offset = reader.at();
    let bytes = reader.take(length)?;
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(DocumentError::InvalidUtf8 { offset: offset + error.valid_up_to() });
    }
    reader.builder.writer.out.extend_from_slice(bytes);
    Ok(())
}

/// Two digits in each of 16 bytes, low half first, with dashes as GUIDs have them.
fn guid_text(reader: &mut BinaryInput<'_>, digits: &[u8; 16]) -> Result<(), DocumentError> {
    let bytes: [u8; 16] = reader.array()?;
    let out = &mut reader.builder.writer.out;
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[digits[usize::from(byte & 15)], digits[usize::from(byte >> 4)]]);
    }
    Ok(())
}

/// 16 bytes as .NET lays a GUID out: a number of 4 bytes and two of 2, little-endian, then 8 bytes.
fn guid(reader: &mut BinaryInput<'_>) -> Result<(), DocumentError> {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let bytes: [u8; 16] = reader.array()?;
    let out = &mut reader.builder.writer.out;
    for (index, place) in ORDER.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let byte = bytes[place];
        out.extend_from_slice(&[HEX_LOWER[usize::from(byte >> 4)], HEX_LOWER[usize::from(byte & 15)]]);
    }
    Ok(())
}

/// Characters of a table of 16, two in a byte, low half first.
fn table_text(reader: &mut BinaryInput<'_>, table: &[u8; 16]) -> Result<(), DocumentError> {
    let length = reader.length(1)?;
    let bytes = reader.take(length.div_ceil(2))?;
    if length % 2 == 1 && bytes.last().is_some_and(|last| last >> 4 != 0) {
        return Err(reader.invalid("the unused half of a packed string's last byte is not zero"));
    }
    let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    reader.builder.writer.out.extend(halves.take(length).map(|half| table[usize::from(half)]));
    Ok(())
}

/// ASCII characters of `bits` bits each above `base`, the first in the lowest bits.
fn packed_text(
    reader: &mut BinaryInput<'_>,
    length: usize,
    bits: usize,
    base: u8,
) -> Result<(), DocumentError> {
    let bytes = reader.take((length * bits).div_ceil(8))?;
    let mask = (1 << bits) - 1;
    let (mut window, mut ready, mut rest) = (0u32, 0, bytes.iter());
    for _ in 0..length {
        if ready < bits {
            let byte = rest.next().expect("there are bytes for so many characters");
            window |= u32::from(*byte) << ready;
            ready += 8;
        }
        let character = (window & mask) + u32::from(base);
        match u8::try_from(character) {
            Ok(character) if character.is_ascii() => reader.builder.writer.out.push(character),
            _ => return Err(reader.invalid("a packed string holds what is no ASCII character")),
        }
        window >>= bits;
        ready -= bits;
    }
    Ok(())
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Text that is base64, stored as the decoded bytes. Before them: the number of groups of four characters,
/// and the number of `=` among these, with all bits inverted where the text leaves them out.
fn base64_text(reader: &mut BinaryInput<'_>, width: usize, digits: &[u8; 64]) -> Result<(), DocumentError> {
    let groups = reader.length(width)?;
    let padding = reader.byte()?;
    let (padding, is_padded) = if padding > 2 { (!padding, false) } else { (padding, true) };
    let padding = usize::from(padding);
    if padding > 2 || (groups == 0 && padding > 0) {
        return Err(reader.invalid_at(reader.at() - 1, "a base64 string ends in no such padding"));
    }
    let bytes = reader.take(groups * 3 - padding)?;
    push_base64(bytes, digits, is_padded, &mut reader.builder.writer.out);
    Ok(())
}

fn push_base64(bytes: &[u8], digits: &[u8; 64], is_padded: bool, out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            match place <= chunk.len() {
                true => out.push(digits[(bits >> (18 - 6 * place) & 63) as usize]),
                false if is_padded => out.push(b'='),
                false => {}
            }
        }
    }
}
