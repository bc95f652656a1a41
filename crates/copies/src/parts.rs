//! Parts of the source's hash space: those that are built, and the gaps between them.

use shardlake_catalog::PlaceRecord;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::KeyRange;

/// The spans that no part covers, in their order.
pub(crate) fn gaps(parts: &[PlaceRecord]) -> Result<Vec<KeyRange>> {
    let mut spans = parts.iter().map(span_of).collect::<Result<Vec<_>>>()?;
    spans.sort_by(|a, b| a.min.cmp(&b.min));
    let KeyRange { min, max } = KeyRange::full();
    let (mut gaps, mut at) = (Vec::new(), min);
    for span in spans {
        if span.min > at {
            gaps.push(KeyRange { min: at, max: span.min });
        }
        at = span.max;
    }
    if at < max {
        gaps.push(KeyRange { min: at, max });
    }
    Ok(gaps)
}

/// The parts of a position that lie in a span.
pub(crate) fn within(parts: &[PlaceRecord], span: &KeyRange) -> Result<Vec<PlaceRecord>> {
    let mut found = Vec::new();
    for part in parts {
        let common = span_of(part)?.intersection(span);
        if !common.is_empty() {
            found.push(PlaceRecord::new(&common, part.after));
        }
    }
    Ok(found)
}

/// The position that the source's log is kept for while the index is built.
pub(crate) fn held(built: &[PlaceRecord], begun: &[PlaceRecord]) -> Result<Vec<PlaceRecord>> {
    let mut held = built.to_vec();
    for gap in gaps(built)? {
        held.extend(within(begun, &gap)?);
    }
    Ok(held)
}

fn span_of(part: &PlaceRecord) -> Result<KeyRange> {
    part.span().map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the stored position of an index is malformed: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_routing::Epk;

    fn span(min: u8, max: u8) -> KeyRange {
        let bound = |byte: u8| Epk(if byte == 0 { Vec::new() } else { vec![byte] });
        KeyRange { min: bound(min), max: bound(max) }
    }

    #[test]
    fn gaps_are_what_no_part_covers() {
        let place = |min, max| PlaceRecord::new(&span(min, max), 3);
        assert_eq!(gaps(&[]).expect("well-formed"), [KeyRange::full()]);
        let parts = [place(0x20, 0x30), place(0, 0x10), place(0x30, 0x40)];
        assert_eq!(gaps(&parts).expect("well-formed"), [span(0x10, 0x20), span(0x40, 0xFF)]);
        assert_eq!(gaps(&[PlaceRecord::new(&KeyRange::full(), 1)]).expect("well-formed"), []);
        let cut = within(&parts, &span(0x28, 0x38)).expect("well-formed");
        assert_eq!(cut, [place(0x28, 0x30), place(0x30, 0x38)]);
    }
}
