//! Collations as documents: `{locale: "en", strength: 2, …}`.

use crate::error::{Result, error};
use crate::value::{Document, Value};
use shardlake_collation::{CaseFirst, Collation, MaxVariable, Rules, Unsupported};

/// The version of ICU that clients are shown. Sort keys go by the version of our own tables.
const SHOWN_VERSION: &str = "57.1";

/// Reads a document whose members were checked; members that it lacks have the values of the locale.
pub fn collation_of(document: &Document) -> std::result::Result<Collation, Unsupported> {
    let locale = document.get("locale").and_then(Value::as_str).unwrap_or("simple");
    if locale == "simple" {
        return Ok(Collation::simple());
    }
    let mut rules = Rules::of_locale(locale);
    let flag = |name: &str, own: bool| match document.get(name) {
        Some(Value::Bool(flag)) => *flag,
        _ => own,
    };
    let word = |name: &str| document.get(name).and_then(Value::as_str);
    if let Some(strength) = document.get("strength").and_then(strength) {
        rules.strength = strength;
    }
    rules.case_level = flag("caseLevel", rules.case_level);
    rules.numeric_ordering = flag("numericOrdering", rules.numeric_ordering);
    rules.normalization = flag("normalization", rules.normalization);
    rules.backwards = flag("backwards", rules.backwards);
    rules.case_first = match word("caseFirst") {
        Some("upper") => CaseFirst::Upper,
        Some("lower") => CaseFirst::Lower,
        Some(_) => CaseFirst::Off,
        None => rules.case_first,
    };
    rules.shifted = word("alternate").map_or(rules.shifted, |word| word == "shifted");
    if word("maxVariable") == Some("space") {
        rules.max_variable = MaxVariable::Space;
    }
    Collation::new(rules)
}

/// The collation that is kept with a collection, an index or a view; the simple one where none is.
pub fn kept_collation(kept: &Document) -> Result<Collation> {
    let Some(collation) = kept.get("collation").and_then(Value::as_document) else {
        return Ok(Collation::simple());
    };
    collation_of(collation)
        .map_err(|unsupported| error!(303, "a collation is not supported: {}", unsupported.0))
}

/// The strength that a number stands for: doubles are truncated, decimals rounded; `None` for an invalid strength.
pub fn strength(value: &Value) -> Option<u8> {
    let rounded = match value {
        Value::Decimal(_) => value.to_f64()?.round_ties_even(),
        _ => value.to_f64()?.trunc(),
    };
    (1.0..=5.0).contains(&rounded).then_some(rounded as u8)
}

/// All members, as `listCollections` and `listIndexes` show them; `None` for the simple collation.
pub fn document_of_collation(collation: &Collation) -> Option<Document> {
    let rules = collation.rules()?;
    let mut shown = Document::one("locale", Value::string(&rules.locale));
    shown.push("caseLevel", Value::Bool(rules.case_level));
    let case_first = match rules.case_first {
        CaseFirst::Off => "off",
        CaseFirst::Upper => "upper",
        CaseFirst::Lower => "lower",
    };
    shown.push("caseFirst", Value::string(case_first));
    shown.push("strength", Value::Int(i32::from(rules.strength)));
    shown.push("numericOrdering", Value::Bool(rules.numeric_ordering));
    shown.push("alternate", Value::string(if rules.shifted { "shifted" } else { "non-ignorable" }));
    let variable = match rules.max_variable {
        MaxVariable::Punctuation => "punct",
        MaxVariable::Space => "space",
    };
    shown.push("maxVariable", Value::string(variable));
    shown.push("normalization", Value::Bool(rules.normalization));
    shown.push("backwards", Value::Bool(rules.backwards));
    shown.push("version", Value::string(SHOWN_VERSION));
    Some(shown)
}
