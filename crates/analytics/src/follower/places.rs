//! The position of a table in its container's change log: parts of the hash space, each up to an LSN.
//!
//! LSNs of a part stay valid where its partition is split, merged or moved. Parts are divided and joined as the partitions are.

use shardlake_analytical_table::log::{Place, Span};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_router::{ContainerEntry, PartitionHandle};
use shardlake_routing::KeyRange;

pub fn span_of(range: &KeyRange) -> Span {
    let (min, max) = range.to_hex();
    Span::new(&min, &max)
}

pub fn range_of(span: &Span) -> Result<KeyRange> {
    KeyRange::from_hex(&span.min, &span.max).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("a place of the table is malformed: {error}"))
    })
}

/// Places of which each lies in one partition, in the order of the hash space, and as few as possible.
pub fn in_partitions(
    entry: &ContainerEntry,
    places: &[Place],
) -> Result<Vec<(PartitionHandle, KeyRange, Place)>> {
    let mut divided: Vec<(PartitionHandle, KeyRange, Place)> = Vec::with_capacity(places.len());
    for place in places {
        let range = range_of(&place.span)?;
        for partition in entry.map.overlapping(&range) {
            let part = partition.epk_range().intersection(&range);
            let place = Place { span: span_of(&part), ..place.clone() };
            divided.push((partition.clone(), part, place));
        }
    }
    divided.sort_by(|(_, a, _), (_, b, _)| a.min.cmp(&b.min));
    let mut joined: Vec<(PartitionHandle, KeyRange, Place)> = Vec::with_capacity(divided.len());
    for (partition, range, place) in divided {
        match joined.last_mut() {
            Some((before, whole, last))
                if before.range_id() == partition.range_id()
                    && whole.max == range.min
                    && last.lsn == place.lsn =>
            {
                whole.max = range.max;
                last.span = span_of(whole);
                last.read_at = last.read_at.min(place.read_at);
            }
            _ => joined.push((partition, range, place)),
        }
    }
    Ok(joined)
}

/// The place, read at this time. Its time never decreases, whatever the clock does.
pub fn read(place: Place, now: i64) -> Place {
    Place { read_at: place.read_at.max(now), ..place }
}

/// The first part of the hash space that no place covers.
pub fn first_gap(places: &[Place]) -> Result<Option<KeyRange>> {
    let mut ranges = places.iter().map(|place| range_of(&place.span)).collect::<Result<Vec<_>>>()?;
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    let full = KeyRange::full();
    let mut covered_to = full.min.clone();
    for range in ranges {
        assert!(range.min >= covered_to, "no part of the hash space is copied twice");
        if range.min > covered_to {
            return Ok(Some(KeyRange { min: covered_to, max: range.min }));
        }
        covered_to = range.max;
    }
    Ok((covered_to != full.max).then_some(KeyRange { min: covered_to, max: full.max }))
}

/// Adds a place, in order, and joined with a level one before it.
pub fn add(places: &mut Vec<Place>, place: Place) {
    places.push(place);
    places.sort_by(|a, b| a.span.min.cmp(&b.span.min));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_leaves_the_time_of_a_place() {
        let place = Place { span: span_of(&KeyRange::full()), lsn: 7, read_at: 2_000 };
        assert_eq!(read(place.clone(), 1_000), place);
        assert_eq!(read(place.clone(), 3_000), Place { read_at: 3_000, ..place });
    }
}
