//! Refusals of writes that would take a logical or a physical partition over its limit.
//!
//! Only growth is refused: a write that leaves the logical partition no larger than it was is
//! always taken, also where a limit was lowered below the stored size. A physical partition has two
//! limits. At the first it is to be split, and takes writes while that is on its way. At the hard
//! one, which is reached only where it cannot be split or is not split, it takes no more.

use shardlake_model::{Error, ErrorKind, Limits};

use super::LogicalSize;

/// The error of a write that grows a logical partition to `after`, or its physical partition, beyond
/// a limit.
pub(crate) fn refusal(after: LogicalSize, limits: &Limits) -> Error {
    let max = limits.logical_partition_size_bytes_max;
    if after.size_bytes > max {
        let words = format!("Partition key reached maximum size of {}", in_words(max));
        return Error::new(ErrorKind::LogicalPartitionFull, words);
    }
    let max = limits.physical_partition_size_bytes_hard_max;
    Error::new(
        ErrorKind::PartitionFull,
        format!(
            "the physical partition has reached {}, twice the size at which it is to be split: delete from it, or split it",
            in_words(max)
        ),
    )
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
