//! Removal of account keys from texts, in each encoding in which a key is used.
//!
//! No part of a bundle should hold a key. This filter is for a key that a person put into a name, a setting or a log line.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::keys::WELL_KNOWN_KEY;

const REMOVED: &str = "[key removed]";
/// Length of the text of a key of 64 bytes.
const KEY_CHARACTERS: usize = 88;

pub struct KeyFilter {
    /// Longest first.
    forms: Vec<String>,
}

impl KeyFilter {
    pub fn new(keys: &[String]) -> KeyFilter {
        let keys = keys.iter().map(String::as_str).chain([WELL_KNOWN_KEY]);
        let mut forms: Vec<String> = keys.flat_map(forms_of).filter(|form| !form.is_empty()).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        KeyFilter { forms }
    }

    pub fn without_keys(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            if text.contains(form) {
                text = text.replace(form, REMOVED);
            }
        }
        without_unknown_keys(&text)
    }
}

/// The key as it is written, in other alphabets of base64, in URLs, in JSON with escaped slashes, and its bytes in hexadecimal.
fn forms_of(key: &str) -> Vec<String> {
    let key = key.trim();
    let encoded = utf8_percent_encode(key, NON_ALPHANUMERIC).to_string();
    let mut forms = vec![key.to_owned(), encoded.to_ascii_lowercase(), encoded, key.replace('/', "\\/")];
    // Lower-case hexadecimal digits of the escapes alone.
    forms.push(key.replace('+', "%2b").replace('/', "%2f").replace('=', "%3d"));
    forms.push(key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"));
    if let Ok(bytes) = STANDARD.decode(key) {
        forms.extend([
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ]);
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        forms.extend([hexadecimal.to_ascii_uppercase(), hexadecimal]);
    }
    forms
}

/// Replaces texts that have the form of a generated key, such as a key that was rotated since.
fn without_unknown_keys(text: &str) -> String {
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let bytes = text.as_bytes();
    let (mut out, mut kept, mut from) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = text[from..].find("==") {
        let end = from + found + 2;
        let begin = end.saturating_sub(KEY_CHARACTERS);
        if end >= KEY_CHARACTERS && begin >= kept && bytes[begin..end - 2].iter().all(|byte| is_of_key(*byte))
        {
            out.push_str(&text[kept..begin]);
            out.push_str(REMOVED);
            kept = end;
        }
        from = end;
    }
    out.push_str(&text[kept..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_removed_in_each_encoding() {
        let secret: Vec<u8> = (0..64).map(|byte| byte * 4 + 3).collect();
        let key = STANDARD.encode(&secret);
        assert!(key.contains('/') && key.contains('+'), "{key}");
        let filter = KeyFilter::new(std::slice::from_ref(&key));
        for form in forms_of(&key) {
            assert_eq!(filter.without_keys(&format!("a {form} b")), format!("a {REMOVED} b"), "{form}");
        }
    }

    #[test]
    fn texts_of_the_form_of_a_key_are_removed_and_other_texts_stay() {
        let unknown = STANDARD.encode([0xA7; 64]);
        let filter = KeyFilter::new(&[]);
        assert_eq!(
            filter.without_keys(&format!("\"{unknown}\",{unknown}")),
            format!("\"{REMOVED}\",{REMOVED}")
        );
        for text in ["a == b", "é==", "==", &"é".repeat(50), "ETag YWJj=="] {
            assert_eq!(filter.without_keys(text), text);
        }
    }
}
