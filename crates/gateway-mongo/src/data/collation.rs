//! Collations as commands state them (spec mongo.md §16).

use std::sync::Arc;

use shardlake_account::collections::{Found, Namespace};
use shardlake_mql::{Collation, Document, Value, collation_of, collation_strength, document_of_collation};

use crate::arguments::{Arguments, Field, Types, optional, required, wrong_type};
use crate::call::Call;
use crate::errors::{Result, code, error, fail};

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

/// Languages whose rules the reference has. An underscore, a hyphen or `@` begins a variant.
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

/// The collation that a client states; `None` where it states none.
pub fn stated(value: Option<&Value>) -> Result<Option<Collation>> {
    match value {
        Some(Value::Document(collation)) if collation.is_empty() => Ok(None),
        Some(Value::Document(collation)) => read(collation).map(Some),
        _ => Ok(None),
    }
}

/// The collation for a new collection, index or view. An empty document counts as none.
pub fn stated_default(value: Option<&Value>) -> Result<Option<Collation>> {
    match value {
        Some(Value::Document(collation)) => read(collation).map(Some),
        _ => Ok(None),
    }
}

/// An index with its collation in full, if it states one.
pub fn with_collation(mut index: Document) -> Result<Document> {
    if let Some(collation) = stated_default(index.get("collation"))? {
        let simple = || Document::one("locale", "simple");
        let collation = document_of_collation(&collation).unwrap_or_else(simple);
        index.set(&"collation".into(), Value::document(collation));
    }
    Ok(index)
}

impl Call {
    /// The collation of a command on a collection or view: its own, else the default of the collection.
    /// Error 167 for a view that has another one.
    pub(super) fn collation(&self, namespace: &Namespace, value: Option<&Value>) -> Result<Collation> {
        let stated = stated(value)?;
        let found = self.collections().find_name(namespace)?;
        in_force(namespace, &found, stated)
    }
}

/// The collation that a command states, else that of the collection or view.
pub fn in_force(namespace: &Namespace, found: &Found, stated: Option<Collation>) -> Result<Collation> {
    match (found, stated) {
        (Found::View(view), Some(stated)) if view.collation != stated => {
            fail!(
                code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "Cannot override a view's default collation: {namespace}"
            )
        }
        (_, Some(stated)) => Ok(stated),
        (Found::View(view), None) => Ok(view.collation.clone()),
        (Found::Collection(collection), None) => Ok(collection.meta.collation.clone()),
        (Found::Nothing, None) => Ok(Collation::simple()),
    }
}

fn read(collation: &Arc<Document>) -> Result<Collation> {
    check(collation)?;
    collation_of(collation).map_err(|unsupported| {
        error!(code::FEATURE_NOT_SUPPORTED, "a collation is not supported: {}", unsupported.0)
    })
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
    if let Some(strength) = fields.given("strength")
        && collation_strength(strength).is_none()
    {
        fail!(
            code::BAD_VALUE,
            "Enumeration value '{strength}' for field 'collation.strength' is not a valid value."
        );
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
    if cases_first && strength < 3 && fields.bool("caseLevel") != Some(true) && locale != "simple" {
        fail!(
            code::BAD_VALUE,
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2"
        );
    }
    if fields.string("version").is_some_and(|version| version != "57.1") {
        fail!(161, "Requested collation version does not match the version of this server's rules");
    }
    Ok(())
}
