//! Z85, the base 85 in which Delta writes the names of vector files.

const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// 20 characters.
pub fn encode(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(20);
    for word in bytes.chunks_exact(4) {
        let mut rest = word.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(rest % 85) as usize];
            rest /= 85;
        }
        text.extend(digits.map(char::from));
    }
    text
}

pub fn decode(text: &str) -> Option<[u8; 16]> {
    if text.len() != 20 {
        return None;
    }
    let mut bytes = [0; 16];
    for (digits, word) in text.as_bytes().chunks_exact(5).zip(bytes.chunks_exact_mut(4)) {
        let mut sum = 0u32;
        for digit in digits {
            let value = DIGITS.iter().position(|known| known == digit)?;
            sum = sum.checked_mul(85)?.checked_add(value as u32)?;
        }
        word.copy_from_slice(&sum.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Z85 specification, twice.
    #[test]
    fn names_are_those_of_the_specification() {
        let bytes = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B];
        let both: [u8; 16] = [bytes, bytes].concat().try_into().unwrap();
        assert_eq!(encode(both), "HelloWorldHelloWorld");
        assert_eq!(decode("HelloWorldHelloWorld"), Some(both));
        assert_eq!(decode("HelloWorld\"elloWorld"), None);
        assert_eq!(decode("####################"), None);
    }
}
