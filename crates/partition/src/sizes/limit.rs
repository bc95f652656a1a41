//! Refuses writes that would take a logical or a physical partition over its limit.
//!
//! Only growth is refused: a write that leaves the logical partition no larger than it was is
//! always taken, also where a limit was lowered below the stored size. A physical partition has two
//! limits. At the first it is to be split, and takes writes while that is on its way. At the hard
//! one, which is reached only where it cannot be split or is not split, it takes no more.

use shardlake_model::{Error, ErrorKind, Limits, Result};

use super::LogicalSize;

/// `before` and `after` are the logical partition's, `partition_bytes` is the whole partition's after the write.
pub(crate) fn check(
    before: LogicalSize,
    after: LogicalSize,
    partition_bytes: u64,
    limits: &Limits,
) -> Result<()> {
    if after.size_bytes <= before.size_bytes {
        return Ok(());
    }
    let max = limits.logical_partition_size_bytes_max;
    if after.size_bytes > max {
        return Err(Error::new(
            ErrorKind::LogicalPartitionFull,
            format!("Partition key reached maximum size of {}", in_words(max)),
        ));
    }
    let max = limits.physical_partition_size_bytes_hard_max;
    if partition_bytes > max {
        return Err(Error::new(
            ErrorKind::PartitionFull,
            format!(
                "the physical partition has reached {}, twice the size at which it is to be split: delete from it, or split it",
                in_words(max)
            ),
        ));
    }
    Ok(())
}

/// The reference writes "20 GB"; limits at a small scale take a smaller unit and at most two decimal places.
fn in_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} bytes");
    };
    let hundredths = u128::from(bytes) * 100 / u128::from(unit);
    let (whole, places) = (hundredths / 100, hundredths % 100);
    match places {
        0 => format!("{whole} {name}"),
        _ if places % 10 == 0 => format!("{whole}.{} {name}", places / 10),
        _ => format!("{whole}.{places:02} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(logical: u64, hard: u64) -> Limits {
        Limits {
            logical_partition_size_bytes_max: logical,
            physical_partition_size_bytes_hard_max: hard,
            ..Limits::default()
        }
    }

    #[test]
    fn growth_over_a_limit_is_refused_and_nothing_else() {
        let size = |size_bytes| LogicalSize { items: 1, size_bytes };
        let kind = |before, after, partition| {
            let checked = check(size(before), size(after), partition, &limits(100, 500));
            checked.err().map(|error| error.kind())
        };
        assert_eq!(kind(0, 100, 100), None);
        assert_eq!(kind(100, 101, 101), Some(ErrorKind::LogicalPartitionFull));
        assert_eq!(kind(200, 200, 200), None, "no larger than before");
        assert_eq!(kind(200, 150, 150), None, "smaller, though still too large");
        assert_eq!(kind(50, 60, 501), Some(ErrorKind::PartitionFull));
        assert_eq!(kind(60, 50, 501), None);
    }

    #[test]
    fn sizes_read_as_the_reference_writes_them() {
        for (bytes, words) in [
            (20 << 30, "20 GB"),
            ((20 << 30) / 1000, "20.47 MB"),
            (5 << 19, "2.5 MB"),
            (1234, "1.2 KB"),
            (1023, "1023 bytes"),
        ] {
            assert_eq!(in_words(bytes), words);
        }
    }
}
