//! A plan in words, one line a leaf.

use std::fmt;

use shardlake_document::{TypeTag, decode_index_value};
use shardlake_model::IndexPathSegment;

use super::{AccessPlan, IndexFilter, IndexRef, Leaf, LookupClass, ValueRange};

impl fmt::Display for AccessPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.end == super::ranges::successor(&self.start)
            && let Some(value) = decode_index_value(&self.start)
        {
            return write!(f, "[{}]", value.to_json().unwrap_or_default());
        }
        write!(f, "[{}, {})", bound(&self.start), bound(&self.end))
    }
}

/// A value, the start of a type, or bytes.
fn bound(bytes: &[u8]) -> String {
    if let Some(value) = decode_index_value(bytes) {
        return value.to_json().unwrap_or_else(|_| "undefined".into());
    }
    let tags = [
        (TypeTag::Null, "null"),
        (TypeTag::False, "false"),
        (TypeTag::True, "true"),
        (TypeTag::Number, "numbers"),
        (TypeTag::String, "strings"),
        (TypeTag::Array, "arrays"),
        (TypeTag::Object, "objects"),
    ];
    let named = |(tag, name): &(TypeTag, &str)| match bytes {
        [only] if *only == *tag as u8 => Some(format!("first of {name}")),
        [only] if *only == *tag as u8 + 1 => Some(format!("end of {name}")),
        _ => None,
    };
    tags.iter()
        .find_map(named)
        .unwrap_or_else(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(""))
}
