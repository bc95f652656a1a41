//! Actions of an operator on a finding, as data, with their predicted effect.
//!
//! A prediction holds for the load of the window, and does not model changes in clients' behavior:
//! a client that is refused less may ask for more. Its model is the simplest one: a partition
//! serves the demand up to its share, and refuses the rest.

use serde::Serialize;

use super::{ContainerLoad, Finding, FindingKind, PartitionLoad, SINGLE_KEY_SHARE};

/// Throughput is set in steps of this, above the demand, as headroom for peaks.
const THROUGHPUT_STEP: f64 = 100.0;
const HEADROOM: f64 = 1.25;
/// Least throughput of a partition, as a fraction of an even share. A client's first requests to an idle partition succeed.
const FLOOR_SHARE: f64 = 0.1;
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
    /// Two neighbours become one partition with the sum of their budgets.
    #[serde(rename_all = "camelCase")]
    Merge { partitions: [String; 2], predicted: Predicted },
    /// Another partition key: the data has to be written anew.
    Rekey,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Predicted {
    /// Shares of the partition's load below and above the cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<[f64; 2]>,
    /// The refused part of all demanded request units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_share: Option<f64>,
    /// The upper end of the share, by the length of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_share_max: Option<f64>,
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

/// A single key with most of the bytes stays whole on its side of any cut.
fn split_size(partition: &PartitionLoad) -> Action {
    let of_one_key = partition.largest_key.as_ref().map_or(0, |(_, size_bytes)| *size_bytes);
    if of_one_key as f64 >= SINGLE_KEY_SHARE * partition.size_bytes as f64 {
        return Action::Rekey;
    }
    Action::Split { partition: partition.range_id.to_string(), at: "size".into(), predicted: None }
}

/// Shares by demand, where the throughput is the container's own and a division changes something.
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
    let need = |(one, wanted): (&PartitionLoad, &f64)| Need { wanted: *wanted, peak: one.busiest_second_ru };
    let needs: Vec<Need> = container.partitions.iter().zip(&wanted).map(need).collect();
    let shares = divided(total, &needs, max);
    let throttled = refused_share(&wanted, shares.iter().map(|share| *share as f64));
    (throttled + WORTHWHILE < refused_share(&wanted, budgets.into_iter())).then(|| Action::Redistribute {
        shares: container.partitions.iter().map(|one| one.range_id.to_string()).zip(shares).collect(),
        predicted: predicted(container, throttled),
    })
}

/// Merge with the neighbour whose budget helps most, where both fit into one partition.
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
    Some(Action::Merge { partitions: [id(left), id(left + 1)], predicted: predicted(container, refused) })
}

fn throughput(container: &ContainerLoad) -> Option<Action> {
    let now = container.throughput?;
    let wanted = wanted_rates(container);
    let advised = (wanted.iter().sum::<f64>() * HEADROOM / THROUGHPUT_STEP).ceil() * THROUGHPUT_STEP;
    let advised = advised.max(now + THROUGHPUT_STEP);
    let growth = advised / now.max(1.0);
    let shares = container.partitions.iter().map(|one| one.budget.unwrap_or(now) * growth);
    let predicted = predicted(container, refused_share(&wanted, shares));
    Some(Action::Throughput { ru_per_second: advised as u64, predicted })
}

/// RU/s that a partition needs.
#[derive(Debug, Clone, Copy)]
struct Need {
    /// On average, with refused operations.
    wanted: f64,
    /// Spent in its busiest second.
    peak: f64,
}

/// RU/s that each partition was asked for, refused ones included, since the first request of the window.
fn wanted_rates(container: &ContainerLoad) -> Vec<f64> {
    let busy = container.busy_seconds();
    let rate = |one: &PartitionLoad| {
        one.wanted_rate() * one.window_seconds.max(1.0) / one.window_seconds.min(busy).max(1.0)
    };
    container.partitions.iter().map(rate).collect()
}

/// A refused share, with its upper bound: a window is no more exact than one of its seconds.
fn predicted(container: &ContainerLoad, throttled_share: f64) -> Predicted {
    let shortest = container.partitions.iter().map(|one| one.window_seconds).fold(f64::INFINITY, f64::min);
    let error = 1.0 / shortest.min(container.busy_seconds()).max(1.0);
    Predicted {
        throttled_share: Some(throttled_share),
        throttled_share_max: Some(throttled_share.max(error)),
        ..Predicted::default()
    }
}

/// Divides a sum into whole shares of at most `max`. Each partition first gets a tenth of an even share, then
/// its busiest second, then headroom above that, then its whole demand, and at last its part of the sum by
/// demand. The first goal that exceeds the sum is met in part, and the later ones not at all.
fn divided(total: u64, needs: &[Need], max: u64) -> Vec<u64> {
    let even = total as f64 / needs.len() as f64;
    let all_wanted: f64 = needs.iter().map(|need| need.wanted).sum();
    let by_wanted = total as f64 / all_wanted.max(1.0);
    let goals: [&dyn Fn(&Need) -> f64; 6] = [
        &|_| even * FLOOR_SHARE,
        &|need| need.peak,
        &|need| need.peak * HEADROOM,
        &|need| need.wanted,
        &|need| need.wanted * by_wanted,
        &|_| max as f64,
    ];
    let mut shares = vec![0.0; needs.len()];
    for goal in goals {
        let missing: Vec<f64> = needs
            .iter()
            .zip(&shares)
            .map(|(need, share)| goal(need).ceil().min(max as f64) - share)
            .collect();
        let left = total as f64 - shares.iter().sum::<f64>();
        let all_missing: f64 = missing.iter().map(|missing| missing.max(0.0)).sum();
        let part = (left / all_missing.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        shares.iter_mut().zip(missing).for_each(|(share, missing)| *share += missing.max(0.0) * part);
    }
    in_whole(total, &shares, max)
}

/// Whole numbers with the same sum: the shares that lose most by rounding down are rounded up.
fn in_whole(total: u64, shares: &[f64], max: u64) -> Vec<u64> {
    // Sums of fractions may miss a whole number by a hair.
    let mut whole: Vec<u64> = shares.iter().map(|share| (share + 1e-6) as u64).collect();
    let loss = |place: &usize| shares[*place] - whole[*place] as f64;
    let mut by_loss: Vec<usize> = (0..shares.len()).filter(|place| whole[*place] < max).collect();
    by_loss.sort_by(|one, other| loss(other).total_cmp(&loss(one)));
    let left = total.saturating_sub(whole.iter().sum());
    by_loss.into_iter().take(left as usize).for_each(|place| whole[place] += 1);
    whole
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

    fn needs(wanted_and_peaks: &[(f64, f64)]) -> Vec<Need> {
        wanted_and_peaks.iter().map(|(wanted, peak)| Need { wanted: *wanted, peak: *peak }).collect()
    }

    #[test]
    fn shares_keep_their_sum_and_their_bounds() {
        for (total, wanted, max) in [
            (1_000, vec![1.0, 0.0, 0.0], 10_000),
            (1_000, vec![0.0, 0.0, 0.0], 10_000),
            (20_000, vec![1.0, 0.0, 0.0], 10_000),
            (7, vec![1.0, 1.0, 1.0], 5),
            (3, vec![100.0, 1.0, 1.0], 5),
            (1_801, vec![416.0, 26.0, 17.0, 0.0, 0.0, 3.5], 1_000),
        ] {
            let wanted: Vec<(f64, f64)> = wanted.into_iter().map(|wanted| (wanted, 0.0)).collect();
            let shares = divided(total, &needs(&wanted), max);
            assert_eq!(shares.iter().sum::<u64>(), total, "{shares:?}");
            assert!(shares.iter().all(|share| (1..=max).contains(share)), "{shares:?}");
        }
    }

    #[test]
    fn no_share_is_below_a_tenth_of_an_even_one_or_below_a_peak_that_fits() {
        let hot_and_idle = [(1_030.0, 600.0), (20.0, 60.0), (0.0, 0.0), (0.0, 0.0)];
        let shares = divided(1_800, &needs(&hot_and_idle), 1_000);
        assert!(shares.iter().all(|share| *share >= 45), "a tenth of 450: {shares:?}");
        assert!(shares[1] >= 75, "its busiest second and a quarter: {shares:?}");
        assert_eq!(shares[0], 1_000, "{shares:?}");
        // The busiest seconds alone exceed the sum: each reaches the same part of its own.
        let shares = divided(1_000, &needs(&[(900.0, 900.0), (300.0, 900.0)]), 1_000);
        assert_eq!(shares, [500, 500]);
        for total in (20_u32..3_000).step_by(7) {
            let loads =
                [(f64::from(total % 97), f64::from(total % 53)), (500.0, 200.0), (3.0, 40.0), (0.0, 0.0)];
            let shares = divided(total.into(), &needs(&loads), 1_000);
            let tenth = f64::from(total) / 40.0;
            assert_eq!(shares.iter().sum::<u64>(), u64::from(total), "{shares:?}");
            let floors: f64 = loads.iter().map(|(_, peak)| peak.max(tenth).ceil()).sum();
            for (share, (_, peak)) in shares.iter().zip(loads) {
                assert!(*share as f64 >= tenth, "{shares:?} of {total}");
                assert!(*share as f64 >= peak || floors > f64::from(total), "{shares:?} of {total}");
            }
        }
    }

    #[test]
    fn a_prediction_is_of_the_time_with_traffic_and_no_more_exact_than_its_window() {
        // A minute with traffic in the last 10 seconds only, at 700 RU/s.
        let mut load = container(vec![partition(0, 5_000.0, 2_000), partition(1, 0.0, 0)]);
        load.partitions[0].operations = 5_000;
        load.partitions[0].busy_seconds = 10.0;
        assert_eq!(wanted_rates(&load).iter().map(|rate| rate.round()).collect::<Vec<_>>(), [700.0, 0.0]);
        let Some(Action::Redistribute { shares, predicted }) = redistribute(&load) else {
            panic!("{load:?}")
        };
        assert!(shares["0"] >= 700, "{shares:?}");
        assert_eq!((predicted.throttled_share, predicted.throttled_share_max), (Some(0.0), Some(0.1)));
    }
}
