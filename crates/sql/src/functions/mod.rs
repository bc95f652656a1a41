//! The built-in functions: their names, argument counts and meaning.
//!
//! Names ignore case and underscores, so every spelling of the reference (`STRING_EQUALS`, `StringEquals`) is
//! one name. An argument that is undefined or has the wrong type makes the result undefined, except for the
//! type checks, which are always `true` or `false`. Aggregates, scores, and the functions that do not
//! evaluate all of their arguments (`IIF`, `CHOOSE`, `DOCUMENTID`) are not here: the binder knows them.
//! Functions of the language that this server lacks are refused by name.
//!
//! | file | contents |
//! |---|---|
//! | `table.rs` | every function: name, other names, argument counts, implementation |
//! | `call.rs`, `prepared_call.rs` | the arguments of one call, read by type; constant ones, compiled |
//! | `types.rs`, `string.rs`, `search.rs`, `regex.rs` | type checks; texts |
//! | `collation.rs` | sort keys of texts, for computed properties of collections |
//! | `array.rs`, `set.rs` | arrays and objects |
//! | `math.rs`, `integer.rs` | doubles; 64-bit integers |
//! | `calendar.rs`, `date_time.rs`, `date_format.rs` | points in time |
//! | `spatial/` | points, lines and areas of GeoJSON |
//! | `conversion.rs` | from and to text |
//! | `reference_tests.rs` | for tests: the page of all functions |

mod array;
mod calendar;
mod call;
mod collation;
mod conversion;
mod date_format;
mod date_time;
mod integer;
mod math;
mod prepared_call;
#[cfg(test)]
mod reference_tests;
mod regex;
mod search;
mod set;
mod spatial;
mod string;
mod table;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use shardlake_document::Value;

use crate::error::{Location, SqlError};
use crate::value::constant_set::ConstantSet;
use table::is_same_name;

pub(crate) use prepared_call::PreparedCall;
pub(crate) use table::Function;

/// `constants` has a place for each argument.
pub(crate) fn prepare(function: Function, constants: &[Option<&Value>]) -> Option<Arc<PreparedCall>> {
    match function {
        Function::ArrayContains => {
            let Some(Value::Array(elements)) = constants.first()? else { return None };
            ConstantSet::of(elements.iter()).map(|set| Arc::new(PreparedCall::Set(set)))
        }
        Function::RegexMatch | Function::RegexExtract | Function::RegexExtractAll => {
            prepare_pattern(constants, 2)
        }
        Function::RegexReplace | Function::RegexReplaceAll => prepare_pattern(constants, 3),
        _ => None,
    }
}

fn prepare_pattern(constants: &[Option<&Value>], modifiers_at: usize) -> Option<Arc<PreparedCall>> {
    let text = |value: &Option<&Value>| match value {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let modifiers = constants.get(modifiers_at).map_or(Some(String::new()), text)?;
    let pattern = regex::Pattern::compile(&text(constants.get(1)?)?, &modifiers);
    Some(Arc::new(PreparedCall::Pattern(pattern)))
}

/// Functions of the language that this server lacks, with the fewest and the most arguments.
const UNSUPPORTED: [(&str, usize, usize); 6] = [
    ("FULLTEXTCONTAINS", 2, 2),
    ("FULLTEXTCONTAINSALL", 2, table::MANY),
    ("FULLTEXTCONTAINSANY", 2, table::MANY),
    ("GENERATEEMBEDDINGS", 1, 1),
    ("HASH", 1, 3),
    ("VECTORDISTANCE", 2, 4),
];

/// For the indexes of collations.
const INTERNAL: [&str; 2] = ["SORTKEY", "SORTKEYOFID"];
/// Evaluated by rules of the binder instead of the table: name, types of the arguments, type of the result.
pub(crate) const SPECIAL: [(&str, &str, &str); 3] = [
    ("CHOOSE", "number, any, …", "any"),
    ("DOCUMENTID", "the item", "number"),
    ("IIF", "boolean, any, any", "any"),
];

/// The functions of the table that queries of clients may call.
pub(crate) fn public() -> impl Iterator<Item = Function> {
    Function::all().filter(|function| !INTERNAL.contains(&function.name()))
}

/// Looks a function up and checks its number of arguments. `locate` is called for the place of the call if
/// the number is wrong.
pub(crate) fn find(
    name: &str,
    argument_count: usize,
    locate: impl FnOnce() -> Location,
) -> Result<Function, SqlError> {
    let function = Function::all().find(|function| function.is_called(name));
    let unsupported = UNSUPPORTED.iter().find(|(candidate, ..)| is_same_name(candidate, name));
    let (fewest, most) = match (function, unsupported) {
        (Some(function), _) => function.argument_counts(),
        (None, Some(&(_, fewest, most))) => (fewest, most),
        (None, None) => {
            return Err(SqlError::UnknownFunction { name: name.to_string(), location: locate() });
        }
    };
    if (fewest..=most).contains(&argument_count) {
        return function
            .ok_or_else(|| SqlError::unsupported(format!("the function {}", name.to_ascii_uppercase())));
    }
    let expected = match most {
        table::MANY => format!("at least {fewest}"),
        _ if fewest == most => fewest.to_string(),
        _ => format!("{fewest} to {most}"),
    };
    Err(SqlError::ArgumentCount { name: name.to_string(), expected, location: locate() })
}
