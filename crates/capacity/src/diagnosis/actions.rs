//! What an operator can have done about a finding, as data, with what it would come to.
//!
//! A prediction is of the load as it was in the window, and of nothing that clients will do then: who is refused less may ask for
//! more. Its model is the plainest one: a partition serves what is wanted of it up to its share, and refuses the rest.

use serde::Serialize;

use super::{ContainerLoad, Finding, FindingKind, PartitionLoad, SINGLE_KEY_SHARE};

/// Throughput is set in steps of this, above what was wanted so that there is room for peaks.
const THROUGHPUT_STEP: f64 = 100.0;
const HEADROOM: f64 = 1.25;
/// Less of an improvement is not worth an order.
const WORTHWHILE: f64 = 0.01;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Action {
    /// At a bound in hexadecimal, or `size` for where the bytes halve.
    #[serde(rename_all = "camelCase")]
    Split { partition: String, at: String, predicted: Option<Predicted> },
    /// RU/s of every partition, by id.
    #[serde(rename_all = "camelCase")]
    Redistribute { shares: std::collections::BTreeMap<String, u64>, predicted: Predicted },
    #[serde(rename_all = "camelCase")]
    Throughput { ru_per_second: u64, predicted: Predicted },
    /// Two neighbours become one partition, whose budget is the sum of theirs.
    #[serde(rename_all = "camelCase")]
    Merge { partitions: [String; 2], predicted: Predicted },
    /// Another partition key: the data has to be written anew.
    Rekey,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Predicted {
    /// Of the load of the partition, below and above the cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<[f64; 2]>,
    /// Of all request units that are wanted, what is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_share: Option<f64>,
}

pub(super) fn actions_of(container: &ContainerLoad, finding: &Finding) -> Vec<Action> {
    let partition = finding
        .range_id
        .and_then(|id| container.partitions.iter().find(|partition| partition.range_id == id));
    let found: Vec<Option<Action>> = match finding.kind {
        FindingKind::SingleHotKey => {
            let merged = partition.and_then(|partition| merge_with_idle(container, partition));
            vec![redistribute(container), merged, Some(Action::Rekey)]
        }
        FindingKind::SequentialKeys => vec![Some(Action::Rekey)],
        FindingKind::HotRange => vec![partition.and_then(split_load), redistribute(container)],
        FindingKind::ThroughputTooLow => vec![throughput(container)],
        FindingKind::StorageSkew => vec![partition.map(split_size)],
        FindingKind::Scans | FindingKind::NothingWrong => vec![],
    };
    found.into_iter().flatten().collect()
}

fn split_load(partition: &PartitionLoad) -> Option<Action> {
    let (at, below) = partition.load_median.clone()?;
    let predicted = Predicted { shares: Some([below, 1.0 - below]), ..Predicted::default() };
    Some(Action::Split { partition: partition.range_id.to_string(), at, predicted: Some(predicted) })
}

/// One key that has most of the bytes stays whole on its side of any cut.
fn split_size(partition: &PartitionLoad) -> Action {
    let of_one_key = partition.largest_key.as_ref().map_or(0, |(_, size_bytes)| *size_bytes);
    if of_one_key as f64 >= SINGLE_KEY_SHARE * partition.size_bytes as f64 {
        return Action::Rekey;
    }
    Action::Split { partition: partition.range_id.to_string(), at: "size".into(), predicted: None }
}

/// Shares by what is wanted, where the throughput is the container's own to divide and that changes something.
fn redistribute(container: &ContainerLoad) -> Option<Action> {
    let budgets: Vec<f64> = container.partitions.iter().map(|one| one.budget).collect::<Option<_>>()?;
    let total = container.throughput? as u64;
    let count = budgets.len() as u64;
    let max = container.partition_throughput_max as u64;
    let is_own = (budgets.iter().sum::<f64>() - total as f64).abs() < 1.0;
    if !is_own || count < 2 || total < count || max == 0 || max.saturating_mul(count) < total {
        return None;
    }
    let wanted = wanted_rates(container);
    let shares = divided(total, &wanted, max);
    let throttled = refused_share(&wanted, shares.iter().map(|share| *share as f64));
    (throttled + WORTHWHILE < refused_share(&wanted, budgets.into_iter())).then(|| Action::Redistribute {
        shares: container.partitions.iter().map(|one| one.range_id.to_string()).zip(shares).collect(),
        predicted: Predicted { throttled_share: Some(throttled), ..Predicted::default() },
    })
}

/// With the neighbour whose budget helps most, where both fit into one partition.
fn merge_with_idle(container: &ContainerLoad, partition: &PartitionLoad) -> Option<Action> {
    let all = &container.partitions;
    let budgets: Vec<f64> = all.iter().map(|one| one.budget).collect::<Option<_>>()?;
    let place = all.iter().position(|one| one.range_id == partition.range_id)?;
    let wanted = wanted_rates(container);
    let refused_now = refused_share(&wanted, budgets.iter().copied());
    let refused_after = |left: usize| {
        let joined = |values: &[f64]| {
            let mut values = values.to_vec();
            let right = values.remove(left + 1);
            values[left] += right;
            values
        };
        refused_share(&joined(&wanted), joined(&budgets).into_iter())
    };
    let fits = |left: &usize| {
        let (one, other) = (&all[*left], &all[*left + 1]);
        budgets[*left] + budgets[*left + 1] <= container.partition_throughput_max
            && one.size_bytes.saturating_add(other.size_bytes) <= container.partition_size_bytes_max
    };
    let pairs = [place.checked_sub(1), (place + 1 < all.len()).then_some(place)];
    let pairs = pairs.into_iter().flatten().filter(fits);
    let best = pairs.map(|left| (left, refused_after(left))).min_by(|one, other| one.1.total_cmp(&other.1));
    let (left, refused) = best.filter(|(_, refused)| refused + WORTHWHILE < refused_now)?;
    let id = |place: usize| all[place].range_id.to_string();
    let predicted = Predicted { throttled_share: Some(refused), ..Predicted::default() };
    Some(Action::Merge { partitions: [id(left), id(left + 1)], predicted })
}

fn throughput(container: &ContainerLoad) -> Option<Action> {
    let now = container.throughput?;
    let wanted = wanted_rates(container);
    let advised = (wanted.iter().sum::<f64>() * HEADROOM / THROUGHPUT_STEP).ceil() * THROUGHPUT_STEP;
    let advised = advised.max(now + THROUGHPUT_STEP);
    let growth = advised / now.max(1.0);
    let shares = container.partitions.iter().map(|one| one.budget.unwrap_or(now) * growth);
    let predicted =
        Predicted { throttled_share: Some(refused_share(&wanted, shares)), ..Predicted::default() };
    Some(Action::Throughput { ru_per_second: advised as u64, predicted })
}

/// RU/s that each partition was asked for, refused ones included.
fn wanted_rates(container: &ContainerLoad) -> Vec<f64> {
    container.partitions.iter().map(PartitionLoad::wanted_rate).collect()
}

/// A sum in whole parts of 1 to `max`, by weight.
fn divided(total: u64, weights: &[f64], max: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let part = |weight: &f64| match sum > 0.0 {
        true => total as f64 * weight / sum,
        false => total as f64 / weights.len() as f64,
    };
    let mut shares: Vec<u64> = weights.iter().map(|weight| (part(weight) as u64).clamp(1, max)).collect();
    // What rounding and the bounds have left over or taken too much goes where there is most room for it.
    loop {
        let given: u64 = shares.iter().sum();
        if given == total {
            return shares;
        }
        if given < total {
            let Some(least) = shares.iter_mut().filter(|share| **share < max).max() else { return shares };
            *least += (total - given).min(max - *least);
        } else {
            let Some(most) = shares.iter_mut().filter(|share| **share > 1).max() else { return shares };
            *most -= (given - total).min(*most - 1);
        }
    }
}

fn refused_share(wanted: &[f64], shares: impl Iterator<Item = f64>) -> f64 {
    let all: f64 = wanted.iter().sum();
    let refused: f64 = wanted.iter().zip(shares).map(|(wanted, share)| (wanted - share).max(0.0)).sum();
    if all > 0.0 { refused / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{KeyLoad, diagnose};

    fn partition(range_id: u32, ru: f64, throttled: u64) -> PartitionLoad {
        PartitionLoad {
            range_id,
            window_seconds: 60.0,
            budget: Some(500.0),
            ru,
            operations: 10_000,
            throttled,
            load_median: Some(("20".into(), 0.4)),
            ..PartitionLoad::default()
        }
    }

    fn container(partitions: Vec<PartitionLoad>) -> ContainerLoad {
        ContainerLoad {
            throughput: Some(500.0 * partitions.len() as f64),
            partitions,
            partition_throughput_max: 10_000.0,
            partition_size_bytes_max: 1 << 30,
            logical_size_bytes_max: 1 << 30,
            collection: None,
        }
    }

    #[test]
    fn a_hot_range_is_split_or_given_more() {
        let load = container(vec![partition(0, 30_000.0, 6_000), partition(1, 3_000.0, 0)]);
        let finding = &diagnose(&load)[0];
        assert_eq!(finding.kind, FindingKind::HotRange);
        let [Action::Split { partition, at, predicted }, Action::Redistribute { shares, predicted: then }] =
            &finding.actions[..]
        else {
            panic!("{:?}", finding.actions)
        };
        assert_eq!((partition.as_str(), at.as_str()), ("0", "20"));
        assert_eq!(predicted.as_ref().and_then(|predicted| predicted.shares), Some([0.4, 0.6]));
        assert_eq!(shares.values().sum::<u64>(), 1_000, "the sum stays");
        assert!(shares["0"] > 900, "{shares:?}");
        assert_eq!(then.throttled_share, Some(0.0), "800 and 50 RU/s are wanted of 1,000");
    }

    #[test]
    fn a_hot_key_may_have_the_budget_of_an_idle_neighbour() {
        let mut load = container(vec![
            partition(0, 20_000.0, 0),
            partition(1, 30_000.0, 6_000),
            partition(2, 1_000.0, 0),
            partition(3, 9_000.0, 0),
        ]);
        load.partitions[1].keys = vec![KeyLoad { key: "[\"a\"]".into(), share: 0.9 }];
        let merges = |load: &ContainerLoad| -> Vec<([String; 2], Option<f64>)> {
            let actions = diagnose(load).into_iter().flat_map(|finding| finding.actions);
            actions
                .filter_map(|action| match action {
                    Action::Merge { partitions, predicted } => Some((partitions, predicted.throttled_share)),
                    _ => None,
                })
                .collect()
        };
        assert_eq!(merges(&load), [(["1".to_owned(), "2".to_owned()], Some(0.0))], "817 of 1,000 RU/s");
        load.partitions[2].size_bytes = 1 << 30;
        load.partitions[1].size_bytes = 1;
        assert_eq!(merges(&load).len(), 1, "the other neighbour still fits");
        load.partition_throughput_max = 800.0;
        assert_eq!(merges(&load), [], "one partition may not have so much");
    }

    #[test]
    fn a_partition_that_has_just_been_split_is_judged_by_its_own_time() {
        let mut load = container(vec![partition(0, 6_000.0, 0), partition(1, 5_000.0, 1_000)]);
        load.partitions.iter_mut().for_each(|partition| partition.operations = partition.ru as u64);
        assert_eq!(redistribute(&load), None, "100 RU/s are wanted of each, of 500");
        load.partitions[1].window_seconds = 10.0;
        let Some(Action::Redistribute { shares, predicted }) = redistribute(&load) else {
            panic!("600 RU/s are wanted of partition 1")
        };
        assert!(shares["1"] > 600, "{shares:?}");
        assert_eq!(predicted.throttled_share, Some(0.0));
        load.partitions[0].window_seconds = 10.0;
        let predicted = redistribute(&load).map(|action| matches!(action, Action::Redistribute { .. }));
        assert_eq!(predicted, None, "both want 600 of 500: no division helps");
    }

    #[test]
    fn orders_that_change_nothing_are_not_proposed() {
        let mut load = container(vec![partition(0, 30_000.0, 6_000), partition(1, 3_000.0, 0)]);
        load.throughput = Some(50_000.0);
        assert_eq!(redistribute(&load), None, "the database shares it");
        let even = container(vec![partition(0, 30_000.0, 6_000), partition(1, 30_000.0, 6_000)]);
        assert_eq!(redistribute(&even), None);
        let finding = &diagnose(&even)[0];
        let Action::Throughput { ru_per_second, predicted } = &finding.actions[0] else {
            panic!("{finding:?}")
        };
        assert_eq!((*ru_per_second, predicted.throttled_share), (2_000, Some(0.0)));
    }

    #[test]
    fn shares_keep_their_sum_and_their_bounds() {
        for (total, weights, max) in [
            (1_000, vec![1.0, 0.0, 0.0], 10_000),
            (1_000, vec![0.0, 0.0, 0.0], 10_000),
            (20_000, vec![1.0, 0.0, 0.0], 10_000),
            (7, vec![1.0, 1.0, 1.0], 5),
            (3, vec![100.0, 1.0, 1.0], 5),
        ] {
            let shares = divided(total, &weights, max);
            assert_eq!(shares.iter().sum::<u64>(), total, "{shares:?}");
            assert!(shares.iter().all(|share| (1..=max).contains(share)), "{shares:?}");
        }
    }
}
