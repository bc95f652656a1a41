//! Collations: read in full, and refused unless strings are compared by their bytes (spec mongo.md §16).

use std::sync::Arc;

use shardlake_mql::{Document, Value};

use crate::arguments::{Arguments, Field, Types, optional, required, wrong_type};
use crate::errors::{Result, code, fail};

const FIELDS: &[Field] = &[
    required("locale", Types::STRING),
    optional("strength", Types::NUMBER),
    optional("caseLevel", Types::BOOL_ONLY),
    optional("caseFirst", Types::STRING),
    optional("numericOrdering", Types::BOOL_ONLY),
    optional("alternate", Types::STRING),
    optional("maxVariable", Types::STRING),
    optional("normalization", Types::BOOL_ONLY),
    optional("backwards", Types::BOOL_ONLY),
    optional("version", Types::STRING),
];

/// Languages whose rules the reference has; what follows an underscore, a hyphen or `@` is a variant.
const LANGUAGES: &[&str] = &[
    "simple", "af", "agq", "ak", "am", "ar", "as", "asa", "az", "bas", "be", "bem", "bez", "bg", "bm", "bn",
    "bo", "br", "brx", "bs", "ca", "ce", "cgg", "chr", "ckb", "cs", "cy", "da", "dav", "de", "dje", "dsb",
    "dua", "dyo", "dz", "ebu", "ee", "el", "en", "eo", "es", "et", "eu", "ewo", "fa", "ff", "fi", "fil",
    "fo", "fr", "fur", "fy", "ga", "gd", "gl", "gsw", "gu", "guz", "gv", "ha", "haw", "he", "hi", "hr",
    "hsb", "hu", "hy", "id", "ig", "ii", "is", "it", "ja", "jgo", "jmc", "ka", "kab", "kam", "kde", "kea",
    "khq", "ki", "kk", "kkj", "kl", "kln", "km", "kn", "ko", "kok", "ks", "ksb", "ksf", "ksh", "kw", "ky",
    "lag", "lb", "lg", "lkt", "ln", "lo", "lrc", "lt", "lu", "luo", "luy", "lv", "mas", "mer", "mfe", "mg",
    "mgh", "mgo", "mk", "ml", "mn", "mr", "ms", "mt", "mua", "my", "mzn", "naq", "nb", "nd", "ne", "nl",
    "nmg", "nn", "nnh", "nus", "nyn", "om", "or", "os", "pa", "pl", "ps", "pt", "qu", "rm", "rn", "ro",
    "rof", "ru", "rw", "rwk", "sah", "saq", "sbp", "se", "seh", "ses", "sg", "shi", "si", "sk", "sl", "smn",
    "sn", "so", "sq", "sr", "sv", "sw", "ta", "te", "teo", "th", "ti", "tk", "to", "tr", "twq", "tzm", "ug",
    "uk", "ur", "uz", "vai", "vi", "vun", "wae", "wo", "xog", "yav", "yi", "yo", "yue", "zgh", "zh", "zu",
];

/// Refuses what is malformed, and every collation but the simple one by name.
pub fn check_collation(value: Option<&Value>) -> Result<()> {
    match value {
        Some(Value::Document(collation)) if collation.is_empty() => Ok(()),
        Some(Value::Document(collation)) => check(collation),
        _ => Ok(()),
    }
}

/// The same where a collation that is there has to say something.
pub fn check_default_collation(value: Option<&Value>) -> Result<()> {
    match value {
        Some(Value::Document(collation)) => check(collation),
        _ => Ok(()),
    }
}

fn check(collation: &Arc<Document>) -> Result<()> {
    let fields = Arguments::of_document("collation", collation, FIELDS)?;
    if let Some(value @ Value::Null) = collation.get("backwards") {
        return Err(wrong_type("collation.backwards", value, Types::BOOL_ONLY));
    }
    let locale = fields.string("locale").unwrap_or_default();
    let language = locale.split(['_', '-', '@']).next().unwrap_or_default();
    if !LANGUAGES.contains(&language) {
        fail!(code::BAD_VALUE, "Field 'locale' is invalid in: {locale}");
    }
    if let Some(strength) = fields.given("strength") {
        let rounded = match strength {
            Value::Decimal(_) => strength.to_f64().map(|strength| strength.round_ties_even()),
            _ => strength.to_f64().map(f64::trunc),
        };
        if !rounded.is_some_and(|strength| (1.0..=5.0).contains(&strength)) {
            fail!(
                code::BAD_VALUE,
                "Enumeration value '{strength}' for field 'collation.strength' is not a valid value."
            );
        }
    }
    for (name, words) in [
        ("caseFirst", &["upper", "lower", "off"][..]),
        ("alternate", &["non-ignorable", "shifted"][..]),
        ("maxVariable", &["punct", "space"][..]),
    ] {
        if let Some(word) = fields.string(name)
            && !words.contains(&word)
        {
            fail!(
                code::BAD_VALUE,
                "Enumeration value '{word}' for field 'collation.{name}' is not a valid value."
            );
        }
    }
    let strength = fields.i64("strength").unwrap_or(3);
    let cases_first = fields.string("caseFirst").is_some_and(|word| word != "off");
    if cases_first && strength < 3 && fields.bool("caseLevel") != Some(true) {
        fail!(
            code::BAD_VALUE,
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2"
        );
    }
    if fields.string("version").is_some_and(|version| version != "57.1") {
        fail!(161, "Requested collation version does not match the version of this server's rules");
    }
    if locale != "simple" {
        fail!(
            code::FEATURE_NOT_SUPPORTED,
            "collations are not supported: leave out locale '{locale}', or use 'simple'"
        );
    }
    Ok(())
}
