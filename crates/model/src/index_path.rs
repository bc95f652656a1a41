//! Paths of an indexing policy.

use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IndexPathSegment {
    Name(String),
    /// `[]`: any array element.
    AnyElement,
    /// `[3]`.
    Element(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// `/?`: the scalar at the node itself.
    Scalar,
    /// `/*`: everything at and below the node.
    Subtree,
}

/// A parsed index path such as `/tags/[]/name/?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPath {
    pub segments: Vec<IndexPathSegment>,
    pub kind: PathKind,
}

impl IndexPath {
    pub fn parse(path: &str) -> Result<IndexPath> {
        let invalid = |why: &str| {
            Error::bad_request(format!("the indexing path '{path}' could not be accepted: {why}"))
        };
        let mut segments = Vec::new();
        let mut rest = path.strip_prefix('/').ok_or_else(|| invalid("it must start with '/'"))?;
        loop {
            match rest {
                "*" => return Ok(IndexPath { segments, kind: PathKind::Subtree }),
                "?" => return Ok(IndexPath { segments, kind: PathKind::Scalar }),
                // Tuple indexes, `/events/[]/{a, b}/?`, are checked as far as their prefix.
                tuple if tuple.starts_with('{') => {
                    return Err(invalid("tuple indexes are not supported yet"));
                }
                _ => {}
            }
            let (segment, after) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find("\"/").ok_or_else(|| invalid("a quoted name is not closed"))?;
                    (IndexPathSegment::Name(quoted[..end].replace("\\\"", "\"")), &quoted[end + 2..])
                }
                None => {
                    let end = rest.find('/').ok_or_else(|| invalid("it must end in '/?' or '/*'"))?;
                    (
                        parse_segment(&rest[..end])
                            .ok_or_else(|| invalid("a segment is empty or malformed"))?,
                        &rest[end + 1..],
                    )
                }
            };
            segments.push(segment);
            rest = after;
        }
    }
}

fn parse_segment(text: &str) -> Option<IndexPathSegment> {
    match text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some("") => Some(IndexPathSegment::AnyElement),
        Some(number) => number.parse().ok().map(IndexPathSegment::Element),
        None if text.is_empty() || text.contains(['*', '?', '[', ']']) => None,
        None => Some(IndexPathSegment::Name(text.to_owned())),
    }
}
