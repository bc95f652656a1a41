//! Finds the bytes of a string that JSON writes with an escape, eight at a time. The reader and the writer share it.

/// Index of the first quote, backslash or control character, or the length of `bytes`.
pub(crate) fn find_special(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let flags = special_flags(u64::from_le_bytes(*word));
        if flags != 0 {
            return index * 8 + (flags.trailing_zeros() / 8) as usize;
        }
    }
    let tail_at = words.len() * 8;
    tail_at + tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len())
}

pub(crate) fn is_special(byte: u8) -> bool {
    SPECIAL[usize::from(byte)]
}

static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// The high bit of each special byte. Borrows can flag a byte wrongly, but only above a byte flagged rightly, so the
/// lowest flag is exact.
fn special_flags(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH;
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    below(word, 0x20) | quote | backslash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_position_agrees_with_the_table() {
        for position in 0..20 {
            for byte in 0..=255u8 {
                for filler in [b'a', 0x7F, 0x80, 0xFF, 0x21, 0x23, b'[', b']'] {
                    let mut bytes = [filler; 20];
                    bytes[position] = byte;
                    let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(20);
                    assert_eq!(find_special(&bytes), expected, "{byte} at {position}");
                }
            }
        }
    }
}
