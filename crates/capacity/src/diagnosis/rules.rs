//! The rules, one function each. See the module's table for the condition of each.

use std::cmp::Ordering;

use shardlake_stdx::natural_order;

use super::course::Spell;
use super::evidence::{Evidence, bytes, number, percent, text};
use super::{
    ASCENDING_LEADERS, ContainerLoad, Finding, FindingKind, LEADER_STRENGTH, LOGICAL_SIZE_SHARE, Leader,
    PartitionLoad, SCAN_SHARE, SINGLE_KEY_SHARE, SIZE_FACTOR, SIZE_FLOOR,
};

/// Shown of a key that may have two kilobytes.
const KEY_CHARS_MAX: usize = 80;
/// Above the demand, as headroom for peaks: the inverse of the share that counts as busy.
const HEADROOM: f64 = 1.25;
/// Throughput is set in steps of this.
const THROUGHPUT_STEP: f64 = 100.0;

pub(super) fn single_hot_keys(container: &ContainerLoad) -> Vec<Finding> {
    let sequence = ascending_leaders(container);
    let is_latest = |key: &str| sequence.last().is_some_and(|leader| leader.key == key);
    let pressed = container.pressed().filter(|partition| !is_scanned(partition));
    let hot = pressed.filter_map(|partition| Some((partition, partition.hottest_key()?)));
    hot.filter(|(_, key)| !is_latest(&key.key))
        .map(|(partition, key)| Finding {
            kind: FindingKind::SingleHotKey,
            range_id: Some(partition.range_id),
            actions: vec![],
            spell: Spell::default(),
            summary: format!(
                "partition {} is busy with one logical key: {} has at least {} of its request units",
                partition.range_id,
                shown(&key.key),
                percent(key.share)
            ),
            evidence: [
                vec![
                    text("key", &key.key),
                    number("keyShare", key.share),
                    number("keyRuPerSecond", key.share * partition.rate()),
                ],
                of_partition(container, partition),
            ]
            .concat(),
            remedy: format!(
                "A split does not help: one logical key is never divided, and can never spend more than its partition may ({:.0} \
                 RU/s at most). Choose a partition key that divides this one: a hierarchical key such as tenant and user, or \
                 the key with a suffix that spreads its items; or cache what is read over and over.",
                container.partition_throughput_max
            ),
        })
        .collect()
}

pub(super) fn sequential_keys(container: &ContainerLoad) -> Vec<Finding> {
    let leaders = ascending_leaders(container);
    let (Some(first), Some(last)) = (leaders.first(), leaders.last()) else { return vec![] };
    if container.pressed().next().is_none() {
        return vec![];
    }
    assert!(leaders.len() > 1, "a sequence has at least two leaders");
    assert!(first.seconds_ago >= last.seconds_ago, "leaders are in the order of their times");
    let pause = (first.seconds_ago - last.seconds_ago) as f64 / (leaders.len() - 1) as f64;
    let finding = Finding {
        kind: FindingKind::SequentialKeys,
        range_id: None,
        actions: vec![],
        spell: Spell::default(),
        summary: format!(
            "the busiest logical key moves on, each time to one above the last: {} after {}",
            shown(&last.key),
            shown(&leaders[leaders.len() - 2].key)
        ),
        evidence: vec![
            number("ascendingLeaders", leaders.len() as f64),
            text("firstKey", &first.key),
            text("lastKey", &last.key),
            number("secondsBetweenLeaders", pause),
        ],
        remedy: "All traffic of a moment goes to one logical key, and so to one partition, however many there are. A key that \
                 is a time or a counter cannot be cured by splits: choose one with many values in use at the same time, or \
                 put such a value before the time in a hierarchical key."
            .into(),
    };
    vec![finding]
}

pub(super) fn hot_ranges(container: &ContainerLoad) -> Vec<Finding> {
    let sequence = ascending_leaders(container);
    let is_of_many = |partition: &&PartitionLoad| {
        partition.hottest_key().is_none() && !is_scanned(partition) && sequence.is_empty()
    };
    let hot = container.pressed().filter(|partition| container.is_hot(partition)).filter(is_of_many);
    hot.map(|partition| {
        let (remedy, median) = match &partition.load_median {
            Some((epk, below)) => (
                format!(
                    "Split partition {} at its load median {epk}: {} of its load lies below. Each half gets a partition's share of \
                     the throughput; or give it a larger share of it by redistribution.",
                    partition.range_id,
                    percent(*below)
                ),
                vec![text("loadMedian", epk), number("loadShareBelow", *below)],
            ),
            None => (
                format!("Give partition {} a larger share of the throughput by redistribution.", partition.range_id),
                vec![],
            ),
        };
        Finding {
            kind: FindingKind::HotRange,
            range_id: Some(partition.range_id),
            actions: vec![],
            spell: Spell::default(),
            summary: format!(
                "partition {} is wanted {:.1} times as much as its fair share, for about {} logical keys of which none stands out",
                partition.range_id,
                container.heat_factor(partition),
                partition.keys_touched
            ),
            evidence: [of_partition(container, partition), vec![number("keysTouched", partition.keys_touched as f64)], median]
                .concat(),
            remedy,
        }
    })
    .collect()
}

pub(super) fn scans(container: &ContainerLoad) -> Vec<Finding> {
    let (total, scanned) =
        (container.rate(), container.partitions.iter().map(PartitionLoad::scan_rate).sum::<f64>());
    let busiest = container.pressed().max_by(|a, b| a.scan_rate().total_cmp(&b.scan_rate()));
    let Some(busiest) = busiest.filter(|_| total > 0.0 && scanned >= SCAN_SHARE * total) else {
        return vec![];
    };
    let reached = container.partitions.iter().filter(|partition| partition.scan_ru > 0.0).count();
    let template = busiest.templates.first();
    let named = template.map(|(text, share)| {
        format!("; the costliest query has {} of what queries cost: {}", percent(*share), shown(text))
    });
    let mut evidence = vec![
        number("scanShare", scanned / total),
        number("scanRuPerSecond", scanned),
        number("partitionsReached", reached as f64),
    ];
    evidence.extend(template.map(|(template, _)| text("template", template)));
    let finding = Finding {
        kind: FindingKind::Scans,
        range_id: None,
        actions: vec![],
        spell: Spell::default(),
        summary: format!(
            "{} of the request units go to queries and feeds over ranges of keys, in {reached} of {} partitions{}",
            percent(scanned / total),
            container.partitions.len(),
            named.unwrap_or_default()
        ),
        evidence,
        remedy: "Name the partition key in the filter, so that one partition answers; more partitions make such queries dearer. \
                 Where that cannot be: see with the index metrics that the filtered paths are indexed, ask for fewer columns and \
                 rows, or keep a second container, fed from the change log, whose key is what is asked for."
            .into(),
    };
    vec![finding]
}

pub(super) fn throughput_too_low(container: &ContainerLoad) -> Vec<Finding> {
    let Some(throughput) = container.throughput else { return vec![] };
    let count = container.partitions.len();
    let pressed: Vec<&PartitionLoad> = container.pressed().collect();
    let is_even = pressed.len() * 2 > count && !container.partitions.iter().any(|one| container.is_hot(one));
    let is_explained =
        |partition: &&PartitionLoad| partition.hottest_key().is_some() || is_scanned(partition);
    if !is_even || pressed.iter().filter(|partition| is_explained(partition)).count() * 2 > pressed.len() {
        return vec![];
    }
    let wanted = container.wanted_rate();
    let advised = (wanted * HEADROOM / THROUGHPUT_STEP).ceil() * THROUGHPUT_STEP;
    let throttled = throttled_share(container);
    let finding = Finding {
        kind: FindingKind::ThroughputTooLow,
        range_id: None,
        actions: vec![],
        spell: Spell::default(),
        summary: format!(
            "all partitions are evenly busy: about {wanted:.0} RU/s are wanted of the {throughput:.0} that are set, and {} of the \
             operations are refused",
            percent(throttled)
        ),
        evidence: vec![
            number("throughput", throughput),
            number("wantedRuPerSecond", wanted),
            number("throttledShare", throttled),
            number("partitionsPressed", pressed.len() as f64),
            number("partitions", count as f64),
        ],
        remedy: format!(
            "Set the throughput to about {:.0} RU/s, or use autoscale with that as its maximum. Clients that repeat refused \
             operations make the demand look larger than it is: raise it in steps.",
            advised.max(throughput + THROUGHPUT_STEP)
        ),
    };
    vec![finding]
}

pub(super) fn storage_skew(container: &ContainerLoad) -> Vec<Finding> {
    let full = container.partitions.iter().filter_map(|partition| {
        let (key, size_bytes) = partition.largest_key.as_ref()?;
        let is_near = *size_bytes as f64 >= LOGICAL_SIZE_SHARE * container.logical_size_bytes_max as f64;
        let has_most = *size_bytes as f64 >= SINGLE_KEY_SHARE * partition.size_bytes as f64;
        (is_near || has_most && is_oversized(container, partition))
            .then(|| large_key(container, partition, key, *size_bytes))
    });
    let full: Vec<Finding> = full.collect();
    let is_told =
        |partition: &&PartitionLoad| full.iter().any(|finding| finding.range_id == Some(partition.range_id));
    let uneven = container
        .partitions
        .iter()
        .filter(|partition| is_oversized(container, partition) && !is_told(partition));
    let uneven: Vec<Finding> = uneven.map(|partition| oversized(container, partition)).collect();
    [full, uneven].concat()
}

fn large_key(container: &ContainerLoad, partition: &PartitionLoad, key: &str, size_bytes: u64) -> Finding {
    let of_limit = size_bytes as f64 / container.logical_size_bytes_max.max(1) as f64;
    Finding {
        kind: FindingKind::StorageSkew,
        range_id: Some(partition.range_id),
        actions: vec![],
        spell: Spell::default(),
        summary: format!(
            "one logical key of partition {} holds {}, {} of what one may: {}",
            partition.range_id,
            bytes(size_bytes),
            percent(of_limit),
            shown(key)
        ),
        evidence: vec![
            text("key", key),
            number("keyBytes", size_bytes as f64),
            number("shareOfLogicalLimit", of_limit),
            number("bytes", partition.size_bytes as f64),
        ],
        remedy: "A split does not help: one logical key is never divided, and writes to it fail at its limit. Give it a further \
                 level with a hierarchical partition key, or let old items expire with a time to live."
            .into(),
    }
}

fn oversized(container: &ContainerLoad, partition: &PartitionLoad) -> Finding {
    let others = mean_of_others(container, partition);
    Finding {
        kind: FindingKind::StorageSkew,
        range_id: Some(partition.range_id),
        actions: vec![],
        spell: Spell::default(),
        summary: format!(
            "partition {} holds {}, the others {} on average",
            partition.range_id,
            bytes(partition.size_bytes),
            bytes(others as u64)
        ),
        evidence: vec![
            number("bytes", partition.size_bytes as f64),
            number("meanBytesOfOthers", others),
            number(
                "shareOfPartitionLimit",
                partition.size_bytes as f64 / container.partition_size_bytes_max.max(1) as f64,
            ),
        ],
        remedy: format!(
            "Nothing has to be done: it is split by itself where its bytes halve when it reaches {}. Splitting it now spreads its \
             items, and its throughput with them.",
            bytes(container.partition_size_bytes_max)
        ),
    }
}

pub(super) fn nothing_wrong(container: &ContainerLoad) -> Finding {
    let used =
        container.partitions.iter().filter_map(|partition| container.used_share(partition)).reduce(f64::max);
    let mut evidence =
        vec![number("ruPerSecond", container.rate()), number("throttledShare", throttled_share(container))];
    evidence.extend(used.map(|share| number("highestUsedShare", share)));
    Finding {
        kind: FindingKind::NothingWrong,
        range_id: None,
        actions: vec![],
        spell: Spell::default(),
        summary: match used {
            Some(share) => format!(
                "nothing is wrong: the busiest partition uses {} of its throughput, and {} of the operations are refused",
                percent(share),
                percent(throttled_share(container))
            ),
            None => "nothing is wrong: no partition stands out".into(),
        },
        evidence,
        remedy: "Nothing is to be done.".into(),
    }
}

fn of_partition(container: &ContainerLoad, partition: &PartitionLoad) -> Vec<Evidence> {
    let mut evidence = vec![
        number("ruPerSecond", partition.rate()),
        number("throttledShare", partition.throttled_share()),
        number("timesFairShare", container.heat_factor(partition)),
        number("writeShare", if partition.ru > 0.0 { partition.write_ru / partition.ru } else { 0.0 }),
    ];
    evidence.extend(partition.budget.map(|budget| number("budgetRuPerSecond", budget)));
    evidence
}

fn throttled_share(container: &ContainerLoad) -> f64 {
    let throttled: u64 = container.partitions.iter().map(|partition| partition.throttled).sum();
    let operations: u64 = container.partitions.iter().map(|partition| partition.operations).sum();
    throttled as f64 / (operations + throttled).max(1) as f64
}

fn is_scanned(partition: &PartitionLoad) -> bool {
    partition.scan_share() >= SCAN_SHARE
}

fn mean_of_others(container: &ContainerLoad, partition: &PartitionLoad) -> f64 {
    let all: u64 = container.partitions.iter().map(|partition| partition.size_bytes).sum();
    debug_assert!(all >= partition.size_bytes, "the partition is one of its container");
    (all - partition.size_bytes) as f64 / (container.partitions.len().max(2) - 1) as f64
}

fn is_oversized(container: &ContainerLoad, partition: &PartitionLoad) -> bool {
    let size = partition.size_bytes as f64;
    container.partitions.len() > 1
        && size >= SIZE_FLOOR * container.partition_size_bytes_max as f64
        && size >= SIZE_FACTOR * mean_of_others(container, partition)
}

/// The last leaders of the whole container that ascend, oldest first; none if they are too few to mean anything.
///
/// An ascending key moves between partitions too, since hashing scatters it; in each it meets
/// leaders that led little.
fn ascending_leaders(container: &ContainerLoad) -> Vec<&Leader> {
    let all = || container.partitions.iter().flat_map(|partition| &partition.leaders);
    let strongest = all().map(|leader| leader.ru).fold(0.0, f64::max);
    let mut leaders: Vec<&Leader> = all().filter(|leader| leader.ru >= LEADER_STRENGTH * strongest).collect();
    leaders.sort_by(|a, b| b.seconds_ago.cmp(&a.seconds_ago).then(b.ru.total_cmp(&a.ru)));
    // One leader per second: keys that are busy concurrently are no sequence.
    leaders.dedup_by(|later, earlier| later.seconds_ago == earlier.seconds_ago || later.key == earlier.key);
    let rising = |pair: &&[&Leader]| natural_order(&pair[0].key, &pair[1].key) == Ordering::Less;
    let steps = leaders.windows(2).rev().take_while(rising).count();
    match steps + 1 >= ASCENDING_LEADERS {
        true => leaders.split_off(leaders.len() - 1 - steps),
        false => vec![],
    }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(KEY_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
