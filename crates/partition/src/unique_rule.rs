//! The items that a unique key of a collection covers, and how it compares strings.
//!
//! ```text
//! text          "Ab"            strength 2: the sort key of "ab", under a slot of the collation and its version
//! id            "$oid:65…"      typed forms of other values are compared as they are
//!               "$str:a%2Fb"    a text that no id may be spelled as is: that of "a/b"
//! ```

use std::borrow::Cow;

use shardlake_collation::{Collation, DATA_VERSION, Rules};
use shardlake_document::{NO_ELEMENTS, RawDocument, RawValue, text_of_id};
use shardlake_model::{Error, KeyPath, Narrowing, Result};

use crate::narrowing;

#[derive(Debug, Clone, Default)]
pub(crate) struct UniqueRule {
    narrowing: Option<Narrowing>,
    pub collation: Collation,
    /// Distinguishes keys over the same paths whose values are stored in other forms. Sort keys of other tables are never compared
    /// with ours: opening the account makes every item claim its values again.
    pub form: String,
}

impl UniqueRule {
    pub fn of(kept: Option<&Narrowing>) -> Result<UniqueRule> {
        let Some(Narrowing::Collated { rules, narrowing, .. }) = kept else {
            return Ok(UniqueRule { narrowing: kept.cloned(), ..UniqueRule::default() });
        };
        let parsed = Rules::parse(rules).ok_or_else(|| Error::bad_request(format!("collation '{rules}'")))?;
        let collation = Collation::new(parsed)
            .map_err(|unsupported| Error::unsupported(format!("collation: {}", unsupported.0)))?;
        let narrowing = narrowing.as_deref().cloned();
        Ok(UniqueRule { narrowing, collation, form: format!("{rules} {DATA_VERSION}") })
    }

    pub fn is_about(&self, item: RawDocument<'_>, paths: &[KeyPath]) -> bool {
        let is_about = |narrowing| narrowing::is_about((narrowing, &self.collation), item, paths);
        self.narrowing.as_ref().is_none_or(is_about)
    }

    /// Sort keys of values that are texts, as text; `None` for other values.
    pub fn sort_texts(&self, values: &[Option<RawValue<'_>>], paths: &[KeyPath]) -> Vec<Option<String>> {
        let sort_text = |(value, path): (&Option<RawValue<'_>>, &KeyPath)| match value {
            Some(RawValue::String(text)) if *text != NO_ELEMENTS && !self.collation.is_simple() => {
                let text = if path.0 == ["id"] { text_of_id(text)? } else { Cow::Borrowed(*text) };
                Some(self.collation.sort_text(&text))
            }
            _ => None,
        };
        values.iter().zip(paths).map(sort_text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> UniqueRule {
        let rules = Rules { strength: 2, ..Rules::of_locale("en") }.text();
        let kept = Narrowing::Collated { rules, version: "1".to_owned(), narrowing: None };
        UniqueRule::of(Some(&kept)).expect("the locale is known")
    }

    fn sort_text(text: &str, path: &str) -> Option<String> {
        let path = KeyPath(vec![path.to_owned()]);
        rule().sort_texts(&[Some(RawValue::String(text))], &[path]).remove(0)
    }

    #[test]
    fn texts_are_alike_where_their_collation_says_so() {
        assert_eq!(sort_text("Ab", "a"), sort_text("aB", "a"));
        assert_ne!(sort_text("ab", "a"), sort_text("áb", "a"));
        assert_eq!(sort_text(NO_ELEMENTS, "a"), None);
        assert_eq!(rule().sort_texts(&[Some(RawValue::Int(1)), None], &[]), []);
    }

    #[test]
    fn ids_of_other_values_are_compared_as_they_are() {
        assert_eq!(sort_text("$oid:0123456789abcdef01234567", "id"), None);
        assert_eq!(sort_text("$null", "id"), None);
        assert_eq!(sort_text("$str:A%2Fb", "id"), rule().collation.sort_text("a/B").into());
        assert_eq!(sort_text("$Abc", "id"), sort_text("$aBC", "id"));
        assert!(sort_text("$oid:65fa", "a").is_some());
        assert!(sort_text("$oid:65fa", "id").is_some(), "a text that only begins like another id");
    }

    #[test]
    fn other_collations_have_other_forms() {
        let kept = |locale: &str| Narrowing::Collated {
            rules: Rules::of_locale(locale).text(),
            version: DATA_VERSION.to_owned(),
            narrowing: Some(Box::new(Narrowing::Sparse)),
        };
        let form = |locale| UniqueRule::of(Some(&kept(locale))).expect("the locale is known").form;
        assert_ne!(form("en"), form("sv"));
        assert!(form("en").ends_with(DATA_VERSION));
        assert_eq!(UniqueRule::of(None).expect("it compares bytes").form, "");
    }
}
