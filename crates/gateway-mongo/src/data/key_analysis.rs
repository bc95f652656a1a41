//! `analyzeShardKey`: suitability of a field as shard key, measured on the stored documents.

use shardlake_account::collections::{Collection, Found, KeyCharacteristics, Namespace};
use shardlake_mql::{Document, Value};

use super::sharding::check_pattern;
use crate::arguments::{Arguments, Field, Types, check_database, optional, required};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

/// As in the reference.
const SAMPLE_SIZE: u64 = 10_000_000;

pub async fn analyze_shard_key(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("analyzeShardKey", Types::STRING),
        required("key", Types::OBJECT),
        optional("keyCharacteristics", Types::BOOL),
        optional("readWriteDistribution", Types::BOOL),
        optional("sampleRate", Types::NUMBER),
        optional("sampleSize", Types::NUMBER),
    ];
    let arguments = call.arguments(FIELDS)?;
    let name = arguments.string("analyzeShardKey").unwrap_or_default();
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{name}'");
    };
    check_database(database)?;
    if matches!(database, "admin" | "config" | "local") {
        fail!(
            code::ILLEGAL_OPERATION,
            "Cannot analyze a shard key for a collection of the database '{database}'"
        );
    }
    let pattern = arguments.document("key").map(|key| Document::clone(key)).unwrap_or_default();
    check_pattern(&pattern)?;
    let wants = |part: &str| arguments.bool(part) != Some(false);
    let (characteristics, distribution) = (wants("keyCharacteristics"), wants("readWriteDistribution"));
    if !characteristics && !distribution {
        fail!(
            code::INVALID_OPTIONS,
            "Cannot analyze nothing: 'keyCharacteristics' and 'readWriteDistribution' are both false"
        );
    }
    let found = match call.collections().find_name(&Namespace::new(database, collection))? {
        Found::Collection(found) => found,
        Found::View(_) => fail!(166, "Namespace {name} is a view, not a collection"),
        Found::Nothing => fail!(code::NAMESPACE_NOT_FOUND, "Namespace {name} does not exist"),
    };
    let mut reply = Document::new();
    if characteristics {
        let rate = rate_of(&arguments, &found)?;
        let read = call.collections().analyze_key(&call.request(), &found, &pattern, rate).await?;
        if read.sampled == 0 {
            fail!(
                code::ILLEGAL_OPERATION,
                "Cannot analyze the characteristics of a shard key: no document was sampled in {name}"
            );
        }
        reply.push("keyCharacteristics", Value::document(shown(&read)));
    }
    if distribution {
        // Queries are not sampled: `configureQueryAnalyzer` is refused.
        let sampled = |kinds: &[&str]| {
            let counts = ["total"].iter().chain(kinds).map(|kind| ((*kind).into(), Value::Long(0)));
            Value::document(Document::one("sampleSize", Value::document(counts.collect())))
        };
        reply.push("readDistribution", sampled(&["find", "aggregate", "count", "distinct"]));
        reply.push("writeDistribution", sampled(&["update", "delete", "findAndModify"]));
    }
    Ok(reply.into())
}

/// The probability with which a document is sampled.
fn rate_of(arguments: &Arguments<'_>, collection: &Collection) -> Result<f64> {
    let rate = arguments.given("sampleRate").and_then(Value::to_f64);
    match (rate, arguments.i64("sampleSize")) {
        (Some(_), Some(_)) => {
            fail!(code::INVALID_OPTIONS, "Cannot specify both 'sampleRate' and 'sampleSize'")
        }
        (Some(rate), None) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        (Some(rate), None) => {
            fail!(code::BAD_VALUE, "'sampleRate' has to be above 0 and at most 1, is {rate}")
        }
        (None, Some(size)) if size < 1 => {
            fail!(code::BAD_VALUE, "'sampleSize' has to be at least 1, is {size}")
        }
        (None, size) => {
            let size = size.map_or(SAMPLE_SIZE, i64::unsigned_abs);
            Ok(size as f64 / collection.items().max(1) as f64)
        }
    }
}

fn shown(read: &KeyCharacteristics) -> Document {
    let long = |number: u64| Value::Long(i64::try_from(number).unwrap_or(i64::MAX));
    let common = |(value, frequency): &(Document, u64)| {
        let mut common = Document::one("value", Value::document(value.clone()));
        common.push("frequency", long(*frequency));
        Value::document(common)
    };
    let mut monotonicity = Document::one("type", "unknown");
    monotonicity.push(
        "reason",
        Value::string("documents are stored by the hash of their shard key, not by their coming"),
    );
    let mut shown = Document::one("numDocsTotal", long(read.documents));
    shown.push("avgDocSizeBytes", long(read.average_bytes));
    shown.push("numDocsSampled", long(read.sampled));
    shown.push("isUnique", Value::Bool(read.is_unique));
    shown.push("numDistinctValues", long(read.distinct));
    shown.push("mostCommonValues", Value::array(read.commonest.iter().map(common).collect()));
    shown.push("monotonicity", Value::document(monotonicity));
    shown
}
