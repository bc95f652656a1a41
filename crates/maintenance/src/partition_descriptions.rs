//! Descriptions of the policy's next step for a partition.

use shardlake_capacity::policy::{NextStep, SplitReason};
use shardlake_model::Limits;

use shardlake_router::RelocationStatus;

/// `next` and `relocation` are the container's.
pub(crate) fn words_of_next(
    (range_id, size_bytes): (u32, u64),
    next: &NextStep,
    relocation: Option<&RelocationStatus>,
    limits: &Limits,
) -> String {
    if let Some(relocation) = relocation.filter(|relocation| relocation.sources.contains(&range_id)) {
        return words_of_relocation(relocation);
    }
    match next {
        NextStep::Split { range_id: at, reason } if *at == range_id => match reason {
            SplitReason::Storage => "is about to be split where its bytes halve: it holds more than one partition may".into(),
            SplitReason::Throughput => {
                format!("is about to be split: the throughput asked for is more than {} RU/s for each partition", limits.partition_throughput_max)
            }
        },
        NextStep::Stuck { range_id: at, reason } if *at == range_id => match reason {
            SplitReason::Storage => {
                "should be split and cannot be: a single logical partition holds it, or the container has as many partitions as it may".into()
            }
            SplitReason::Throughput => {
                "should be split and cannot be: the container has as many partitions as it may".into()
            }
        },
        NextStep::SuggestMerge { range_ids } if range_ids.contains(&range_id) => {
            let other = if range_ids[0] == range_id { range_ids[1] } else { range_ids[0] };
            format!("could be merged with {other}, since one partition would do for both; nothing happens by itself")
        }
        _ => words_of_size(size_bytes, limits.physical_partition_size_bytes_max.max(1)),
    }
}

fn words_of_size(size_bytes: u64, max: u64) -> String {
    match percent_of(size_bytes, max) {
        0 => "stays as it is".into(),
        percent => format!("stays as it is: {percent} % of the size at which it is split"),
    }
}

fn words_of_relocation(relocation: &RelocationStatus) -> String {
    let copied = percent_of(relocation.items_copied, relocation.items.max(1)).min(100);
    let (kind, step) = (relocation.kind.name(), relocation.step.name());
    let targets: Vec<String> = relocation.targets.iter().map(|(id, ..)| id.to_string()).collect();
    format!("{kind} into {} in progress: {step}, {copied} % copied", targets.join(" and "))
}

fn percent_of(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_told_to_whom_it_concerns() {
        let limits = Limits { physical_partition_size_bytes_max: 1000, ..Limits::default() };
        let words =
            |next: NextStep| [1, 2, 3].map(|range_id| words_of_next((range_id, 420), &next, None, &limits));
        let idle = "stays as it is: 42 % of the size at which it is split";
        assert_eq!(words(NextStep::Nothing), [idle; 3]);
        for (reason, said) in [(SplitReason::Storage, "bytes halve"), (SplitReason::Throughput, "10000 RU/s")]
        {
            let [first, second, third] = words(NextStep::Split { range_id: 2, reason });
            assert_eq!((first.as_str(), third.as_str()), (idle, idle));
            assert!(second.contains("about to be split") && second.contains(said), "{second}");
            assert!(words(NextStep::Stuck { range_id: 2, reason })[1].contains("cannot be"));
        }
        let [first, second, third] = words(NextStep::SuggestMerge { range_ids: [1, 2] });
        assert!(first.contains("merged with 2") && second.contains("merged with 1"), "{first} {second}");
        assert_eq!(third, idle);
    }
}
