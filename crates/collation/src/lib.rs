//! Order and equality of texts by the rules of a language (Unicode collation, as MongoDB's collations name it).
//!
//! ```text
//! Rules ──new──► Collation ──compare──► Less, Equal, Greater
//!                          └──sort_key─► bytes in the same order, for sets, sorts and unique indexes
//! ```
//!
//! `rules.rs` holds the rules as data. The simple collation has none: it compares bytes and costs one test.
//! Sort keys depend on the tables of [`DATA_VERSION`], so code that stores them records that version.

mod rules;

pub use rules::{CaseFirst, MaxVariable, Rules};

use icu_collator::options::{
    AlternateHandling, CaseLevel, CollatorOptions, MaxVariable as Variable, Strength,
};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use rules::is_canadian_french;
use std::cmp::Ordering;
use std::sync::Arc;

/// Version of the tables and the code that make sort keys; a test compares it with the crates that bring them.
pub const DATA_VERSION: &str = "icu4x-2.4.0";

/// Bytes of a sort key in memory. A text of 16 MB in the letters of one language has less; a character that stands for a
/// sentence takes ten times as many bytes as in the text.
pub const SORT_KEY_BYTES_MAX: usize = 32 << 20;
/// A text of so many bytes has a shorter sort key, whatever its characters.
const SHORT_TEXT_BYTES: usize = 64 << 10;

/// Languages with the common order of letters, for which the accents of Canadian French are all that `backwards` changes.
const COMMON_ORDER: &[&str] = &["en", "fr", "de", "it", "nl", "pt", "ga", "id", "ms", "sw", "ca", "lb", "gd"];

/// Orders that a locale may ask for in the place of its usual one.
const ORDERS: &[&str] = &[
    "standard", "phonebk", "trad", "dict", "gb2312", "big5han", "pinyin", "stroke", "zhuyin", "unihan",
    "compat", "emoji", "eor", "phonetic", "reformed", "search", "searchjl",
];

/// How texts are compared: by their bytes, or by the rules of a language.
#[derive(Clone, Default)]
pub struct Collation(Option<Arc<Language>>);

struct Language {
    rules: Rules,
    collator: CollatorBorrowed<'static>,
}

/// Rules that the tables do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// Compares texts by their bytes.
pub static SIMPLE: Collation = Collation(None);

impl std::fmt::Debug for Collation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            None => out.write_str("simple"),
            Some(language) => out.write_str(&language.rules.text()),
        }
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        self.rules() == other.rules()
    }
}

impl Eq for Collation {}

impl Collation {
    pub fn simple() -> Collation {
        Collation(None)
    }

    pub fn new(rules: Rules) -> Result<Collation, Unsupported> {
        let locale = locale_of(&rules)?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.case_first = Some(match rules.case_first {
            CaseFirst::Off => CollationCaseFirst::False,
            CaseFirst::Upper => CollationCaseFirst::Upper,
            CaseFirst::Lower => CollationCaseFirst::Lower,
        });
        preferences.numeric_ordering = Some(match rules.numeric_ordering {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        let mut options = CollatorOptions::default();
        options.strength = Some(match rules.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.case_level = Some(if rules.case_level { CaseLevel::On } else { CaseLevel::Off });
        options.alternate_handling = Some(match rules.shifted {
            true => AlternateHandling::Shifted,
            false => AlternateHandling::NonIgnorable,
        });
        options.max_variable = Some(match rules.max_variable {
            MaxVariable::Punctuation => Variable::Punctuation,
            MaxVariable::Space => Variable::Space,
        });
        let collator = CollatorBorrowed::try_new(preferences, options)
            .map_err(|error| Unsupported(format!("locale '{}': {error}", rules.locale)))?;
        Ok(Collation(Some(Arc::new(Language { rules, collator }))))
    }

    pub fn is_simple(&self) -> bool {
        self.0.is_none()
    }

    /// `None` for the simple collation.
    pub fn rules(&self) -> Option<&Rules> {
        self.0.as_ref().map(|language| &language.rules)
    }

    #[inline]
    pub fn compare(&self, left: &str, right: &str) -> Ordering {
        match &self.0 {
            None => left.as_bytes().cmp(right.as_bytes()),
            Some(language) => language.collator.compare(left, right),
        }
    }

    /// Bytes in the order of [`Collation::compare`]; equal texts have equal bytes.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        let Some(language) = &self.0 else { return text.as_bytes().to_vec() };
        let mut key = Vec::with_capacity(text.len() * 2 + 4);
        let Ok(()) = language.collator.write_sort_key_to(text, &mut key);
        key
    }

    /// The same as text, see [`Collation::sort_text`]; `None` where it has more bytes than [`SORT_KEY_BYTES_MAX`].
    pub fn bounded_sort_text(&self, text: &str) -> Option<String> {
        match &self.0 {
            Some(language) if text.len() > SHORT_TEXT_BYTES => {
                let mut key = vec![0; SORT_KEY_BYTES_MAX];
                let length = language.collator.write_sort_key_to(text, &mut key[..]).ok()?;
                debug_assert!(length <= SORT_KEY_BYTES_MAX, "a sort key stays within its buffer");
                Some(key[..length].iter().copied().map(char::from).collect())
            }
            _ => Some(self.sort_text(text)),
        }
    }

    /// The sort key as text: each byte is the character of its number, which keeps the order of bytes.
    pub fn sort_text(&self, text: &str) -> String {
        self.sort_key(text).into_iter().map(char::from).collect()
    }
}

/// The locale in the form of BCP 47.
fn locale_of(rules: &Rules) -> Result<Locale, Unsupported> {
    let unsupported = || Unsupported(format!("locale '{}'", rules.locale));
    let (base, keywords) = match rules.locale.split_once('@') {
        Some((base, keywords)) => (base, Some(keywords)),
        None => (rules.locale.as_str(), None),
    };
    let mut tag = base.replace('_', "-");
    let language = tag.split('-').next().unwrap_or_default().to_owned();
    if rules.backwards && !is_canadian_french(base) {
        if !COMMON_ORDER.contains(&language.as_str()) || keywords.is_some() {
            return Err(Unsupported(format!("'backwards' with locale '{}'", rules.locale)));
        }
        tag = "fr-CA".to_owned();
    } else if !rules.backwards && is_canadian_french(base) {
        tag = "fr".to_owned();
    }
    if let Some(keywords) = keywords {
        let order = keywords.strip_prefix("collation=").ok_or_else(unsupported)?;
        let order = match order {
            "phonebook" => "phonebk",
            "traditional" => "trad",
            "dictionary" => "dict",
            "gb2312han" => "gb2312",
            other => other,
        };
        if !ORDERS.contains(&order) {
            return Err(unsupported());
        }
        tag.push_str("-u-co-");
        tag.push_str(order);
    }
    tag.parse().map_err(|_| unsupported())
}

#[cfg(test)]
mod tests;
