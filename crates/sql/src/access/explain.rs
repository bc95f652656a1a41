//! A plan in words, one line per leaf.

use std::fmt;

use shardlake_document::{TypeTag, Value, decode_index_value, decode_ordered, index_value_length};
use shardlake_model::IndexPathSegment;

use super::{AccessPlan, IndexFilter, IndexRef, Leaf, LookupClass, ValueRange};

impl fmt::Display for AccessPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for leaf in &self.scope {
            writeln!(f, "within: {leaf}")?;
        }
        writeln!(f, "filter{}:", if self.precise { "" } else { ", checked on the items" })?;
        write_filter(&self.filter, 1, f)?;
        if let Some(order) = &self.order {
            let direction = if order.reverse { "backwards" } else { "forwards" };
            write!(f, "order: {} {direction}", order.index)?;
            if let Some(range) = &order.range {
                write!(f, " {range}")?;
            }
            let undefined = if order.includes_undefined { ", items without it included" } else { "" };
            writeln!(f, "{undefined}")?;
        }
        Ok(())
    }
}

fn write_filter(filter: &IndexFilter, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let (name, parts) = match filter {
        IndexFilter::Everything => return writeln!(f, "{indent}everything"),
        IndexFilter::Nothing => return writeln!(f, "{indent}nothing"),
        IndexFilter::Leaf(leaf) => return writeln!(f, "{indent}{leaf}"),
        IndexFilter::And(parts) => ("all of", parts),
        IndexFilter::Or(parts) => ("any of", parts),
    };
    writeln!(f, "{indent}{name}")?;
    parts.iter().try_for_each(|part| write_filter(part, depth + 1, f))
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            LookupClass::Seek => "seek",
            LookupClass::PreciseScan => "range scan",
            LookupClass::ExpandedScan => "expanded scan",
            LookupClass::IndexScan => "full index scan",
        };
        write!(f, "{} {class}", self.index)?;
        const SHOWN: usize = 8;
        for range in self.ranges.iter().take(SHOWN) {
            write!(f, " {range}")?;
        }
        if self.ranges.len() > SHOWN {
            write!(f, " and {} more", self.ranges.len() - SHOWN)?;
        }
        let tested = if self.test.is_some() { ", tested" } else { "" };
        let checked = if self.precise { "" } else { ", checked on the item" };
        write!(f, "{tested}{checked}")
    }
}

impl fmt::Display for IndexRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexRef::Composite(number) => write!(f, "composite index {number}"),
            IndexRef::Path(path) => path.iter().try_for_each(|segment| match segment {
                IndexPathSegment::Name(name) => write!(f, "/{name}"),
                IndexPathSegment::AnyElement => write!(f, "/[]"),
                IndexPathSegment::Element(position) => write!(f, "/[{position}]"),
            }),
        }
    }
}

/// `[1]`, `(1, "a"]`, `["ab"…]` for everything that starts with it, `[numbers]` for whole types; otherwise
/// bytes.
impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.end == super::ranges::successor(&self.start) {
            if let Some(value) = entry(&self.start) {
                return write!(f, "[{value}]");
            }
            if let Some(start) = start_of_strings(&self.start) {
                return write!(f, "[{start}…]");
            }
        }
        if let ([first], [end]) = (&self.start[..], &self.end[..])
            && let (Some(first), Some(last)) = (type_name(*first), type_name(end.wrapping_sub(1)))
        {
            return if first == last { write!(f, "[{first}]") } else { write!(f, "[{first} to {last}]") };
        }
        let (open, start) = match bound(&self.start) {
            (false, value) => ("[", value),
            (true, value) => ("(", value),
        };
        let (close, end) = match bound(&self.end) {
            (false, value) => (")", value),
            (true, value) => ("]", value),
        };
        write!(f, "{open}{start}, {end}{close}")
    }
}

/// A bound in words, and whether it is directly after the named value rather than at it.
fn bound(bytes: &[u8]) -> (bool, String) {
    let at = match bytes {
        [tag] => type_name(*tag).map(str::to_owned),
        _ => None,
    };
    let at = at.or_else(|| entry(bytes)).or_else(|| start_of_strings(bytes));
    let mut before = bytes.to_vec();
    if let Some(last) = before.last_mut() {
        *last = last.wrapping_sub(1);
    }
    let behind = match before[..] {
        [tag] => type_name(tag).map(str::to_owned),
        _ => entry(&before),
    };
    // Of the two neighbouring values, the bound was made from the one with the shorter text.
    match (at, behind) {
        (Some(at), Some(behind)) if behind.len() < at.len() => (true, behind),
        (Some(at), _) => (false, at),
        (None, Some(behind)) => (true, behind),
        (None, None) => (false, bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// The values of an entry, one after the other in a composite index, if it consists only of values.
fn entry(bytes: &[u8]) -> Option<String> {
    let invert = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
    let mut values = Vec::new();
    let mut rest = bytes;
    while let Some(tag) = rest.first() {
        // Members in the opposite order are inverted, their tags too.
        let is_inverted = *tag > TypeTag::Object as u8;
        let plain = if is_inverted { invert(rest) } else { rest.to_vec() };
        let length = index_value_length(&plain)?;
        values.push(value_text(&plain[..length])?);
        rest = &rest[length..];
    }
    (!values.is_empty()).then(|| values.join(" and "))
}

fn value_text(bytes: &[u8]) -> Option<String> {
    match decode_index_value(bytes)? {
        Value::Undefined => Some("undefined".into()),
        value => value.to_json().ok(),
    }
}

/// Characters of a long string that are shown.
const SHOWN: usize = 24;

/// The start that the strings have in common, if the bytes are the start of a string.
fn start_of_strings(bytes: &[u8]) -> Option<String> {
    if bytes.len() < 2 || bytes[0] != TypeTag::String as u8 {
        return None;
    }
    let start = bytes.strip_suffix(&[0xFF]).unwrap_or(bytes);
    let (value, _) = decode_ordered(&[start, &[0]].concat()).ok()?;
    let shown: String = value.as_str()?.chars().take(SHOWN).collect();
    Value::String(shown).to_json().ok()
}

fn type_name(tag: u8) -> Option<&'static str> {
    let types = [
        (TypeTag::Undefined, "undefined"),
        (TypeTag::Null, "null"),
        (TypeTag::False, "false"),
        (TypeTag::True, "true"),
        (TypeTag::Number, "numbers"),
        (TypeTag::String, "strings"),
        (TypeTag::Array, "arrays"),
        (TypeTag::Object, "objects"),
    ];
    types.into_iter().find(|(known, _)| *known as u8 == tag).map(|(_, name)| name)
}
