//! Loads as traffic would leave them, each with its expected findings.

use super::*;

const WINDOW: f64 = 600.0;
const GB: u64 = 1_000_000_000;

/// Some RU/s of reads of 1 RU over many keys, on a budget of 1,000 RU/s.
fn partition(range_id: u32, ru_per_second: f64) -> PartitionLoad {
    PartitionLoad {
        range_id,
        window_seconds: WINDOW,
        budget: Some(1000.0),
        ru: ru_per_second * WINDOW,
        operations: (ru_per_second * WINDOW) as u64,
        keys: vec![KeyLoad { key: "[\"some\"]".into(), share: 0.01 }],
        keys_touched: 5000,
        load_median: Some(("1F".into(), 0.5)),
        size_bytes: GB,
        ..PartitionLoad::default()
    }
}

fn throttled(share: f64, mut partition: PartitionLoad) -> PartitionLoad {
    partition.throttled = (partition.operations as f64 * share / (1.0 - share)) as u64;
    partition
}

fn container(partitions: Vec<PartitionLoad>) -> ContainerLoad {
    ContainerLoad {
        throughput: Some(1000.0 * partitions.len() as f64),
        partitions,
        partition_throughput_max: 10_000.0,
        partition_size_bytes_max: 50 * GB,
        logical_size_bytes_max: 20 * GB,
        collection: None,
    }
}

fn unlimited(mut partitions: Vec<PartitionLoad>) -> ContainerLoad {
    partitions.iter_mut().for_each(|partition| partition.budget = None);
    ContainerLoad { throughput: None, ..container(partitions) }
}

/// Kinds and partitions; every finding has words and numbers.
fn found(container: &ContainerLoad) -> Vec<(FindingKind, Option<u32>)> {
    let findings = diagnose(container);
    for finding in &findings {
        assert!(!finding.summary.is_empty() && finding.remedy.ends_with('.'), "{finding:?}");
        assert!(!finding.evidence.is_empty(), "{finding:?}");
        for evidence in &finding.evidence {
            assert!(
                !matches!(evidence.value, EvidenceValue::Number(number) if !number.is_finite()),
                "{finding:?}"
            );
        }
    }
    findings.iter().map(|finding| (finding.kind, finding.range_id)).collect()
}

const HEALTHY: [(FindingKind, Option<u32>); 1] = [(FindingKind::NothingWrong, None)];

#[test]
fn no_traffic_and_little_traffic_are_healthy() {
    assert_eq!(found(&container(vec![])), HEALTHY);
    assert_eq!(found(&container(vec![PartitionLoad::default()])), HEALTHY);
    assert_eq!(found(&container(vec![partition(0, 400.0), partition(1, 380.0)])), HEALTHY);
    // One key has all of the load, but the budget is not used up.
    let mut quiet = partition(0, 300.0);
    quiet.keys[0].share = 1.0;
    assert_eq!(found(&container(vec![quiet.clone()])), HEALTHY);
    // A few operations refused are throughput well used.
    assert_eq!(found(&container(vec![throttled(0.04, partition(0, 700.0))])), HEALTHY);
    // Too few operations to judge.
    let few = PartitionLoad { operations: 20, throttled: 20, ru: 20.0, ..quiet };
    assert_eq!(found(&container(vec![few])), HEALTHY);
    assert_eq!(found(&unlimited(vec![partition(0, 50.0), partition(1, 1.0)])), HEALTHY);
}

#[test]
fn one_hot_key_is_told_from_many() {
    let mut hot = throttled(0.4, partition(1, 950.0));
    hot.keys = vec![KeyLoad { key: "[\"busy\"]".into(), share: 0.8 }];
    let all = container(vec![partition(0, 100.0), hot.clone(), partition(2, 120.0)]);
    assert_eq!(found(&all), [(FindingKind::SingleHotKey, Some(1))]);
    let finding = &diagnose(&all)[0];
    assert!(finding.summary.contains("[\"busy\"]") && finding.summary.contains("80 %"), "{finding:?}");
    assert!(finding.remedy.contains("split does not help"));
    // A little less than half, and it is a range.
    hot.keys[0].share = 0.45;
    let all = container(vec![partition(0, 100.0), hot.clone(), partition(2, 120.0)]);
    assert_eq!(found(&all), [(FindingKind::HotRange, Some(1))]);
    let finding = &diagnose(&all)[0];
    assert!(finding.remedy.contains("load median 1F"), "{finding:?}");
    // A hot key on the only partition is one, too.
    hot.keys[0].share = 0.7;
    assert_eq!(found(&container(vec![hot])), [(FindingKind::SingleHotKey, Some(1))]);
}

#[test]
fn remedies_of_collections_are_statements_of_their_protocol() {
    let named = |partitions, is_sharded| {
        let name = CollectionName { database: "shop".into(), collection: "orders".into(), is_sharded };
        ContainerLoad { collection: Some(name), ..container(partitions) }
    };
    let mut hot = throttled(0.4, partition(0, 950.0));
    hot.keys = vec![KeyLoad { key: "[]".into(), share: 1.0 }];
    let remedy = |container: &ContainerLoad| {
        assert_ne!(found(container), HEALTHY);
        diagnose(container).remove(0).remedy
    };
    let unsharded = remedy(&named(vec![hot.clone()], false));
    assert!(
        unsharded.contains(r#"sh.shardCollection("shop.orders_sharded", {FIELD: "hashed"})"#),
        "{unsharded}"
    );
    assert!(unsharded.contains("is not sharded") && unsharded.contains("$merge"), "{unsharded}");
    let sharded = remedy(&named(vec![hot.clone(), partition(1, 100.0)], true));
    assert!(sharded.contains("{FIRST: 1, SECOND: 1}"), "{sharded}");
    let busy = |range_id| throttled(0.3, partition(range_id, 980.0));
    let even = remedy(&named(vec![busy(0), busy(1), busy(2)], true));
    assert!(even.contains("customAction: \"UpdateCollection\""), "{even}");
    // The texts for the other API stay as they are.
    assert!(!remedy(&container(vec![hot])).contains("mongosh"));
}

#[test]
fn hot_ranges_are_hot_compared_with_their_budgets() {
    let hot = || throttled(0.2, partition(0, 950.0));
    assert_eq!(found(&container(vec![hot(), partition(1, 200.0)])), [(FindingKind::HotRange, Some(0))]);
    // With four times the throughput, four times the load is fair.
    let mut shared = container(vec![hot(), partition(1, 200.0)]);
    shared.partitions[1].budget = Some(210.0);
    assert_eq!(found(&shared), [(FindingKind::ThroughputTooLow, None)]);
    // Without budgets an equal share is.
    assert_eq!(
        found(&unlimited(vec![partition(0, 5000.0), partition(1, 500.0)])),
        [(FindingKind::HotRange, Some(0))]
    );
    assert_eq!(found(&unlimited(vec![partition(0, 5000.0), partition(1, 4500.0)])), HEALTHY);
    // Load that cannot be halved is still reported.
    let mut hot = hot();
    hot.load_median = None;
    assert_eq!(found(&container(vec![hot, partition(1, 200.0)])), [(FindingKind::HotRange, Some(0))]);
}

#[test]
fn even_pressure_asks_for_throughput() {
    let busy = |range_id| throttled(0.3, partition(range_id, 980.0));
    let all = container(vec![busy(0), busy(1), busy(2)]);
    assert_eq!(found(&all), [(FindingKind::ThroughputTooLow, None)]);
    let finding = &diagnose(&all)[0];
    // 2,940 RU/s are 70 %: 4,200 are wanted, and a quarter more advised.
    assert!(finding.remedy.contains("5300 RU/s"), "{finding:?}");
    assert_eq!(found(&container(vec![busy(0)])), [(FindingKind::ThroughputTooLow, None)]);
    // Busy without refusals leaves no headroom for peaks.
    assert_eq!(
        found(&container(vec![partition(0, 850.0), partition(1, 840.0)])),
        [(FindingKind::ThroughputTooLow, None)]
    );
    // Nothing to raise where nothing limits.
    assert_eq!(found(&unlimited(vec![partition(0, 9000.0), partition(1, 9000.0)])), HEALTHY);
}

#[test]
fn scans_are_named_with_their_query() {
    let scanned = |range_id| {
        let mut one = throttled(0.3, partition(range_id, 950.0));
        one.scan_ru = 0.7 * one.ru;
        one.templates = vec![("SELECT * FROM c WHERE c.status = ?".into(), 0.9)];
        one
    };
    let all = container(vec![scanned(0), scanned(1)]);
    assert_eq!(found(&all), [(FindingKind::Scans, None)]);
    assert!(diagnose(&all)[0].summary.contains("c.status = ?"));
    // Less than half is not the first thing to look at.
    let mut less = all.clone();
    less.partitions.iter_mut().for_each(|one| one.scan_ru = 0.4 * one.ru);
    assert_eq!(found(&less), [(FindingKind::ThroughputTooLow, None)]);
    // Scans within the budget are not reported either.
    let mut calm = partition(0, 300.0);
    calm.scan_ru = calm.ru;
    assert_eq!(found(&container(vec![calm])), HEALTHY);
}

#[test]
fn keys_that_ascend_are_told_from_one_hot_key() {
    let leader = |day: u64, ru| Leader { key: format!("[\"day-{day}\"]"), seconds_ago: 60 * (20 - day), ru };
    let mut partitions: Vec<PartitionLoad> = (0..3).map(|range_id| partition(range_id, 300.0)).collect();
    partitions[2] = throttled(0.5, partition(2, 950.0));
    partitions[2].keys = vec![KeyLoad { key: "[\"day-11\"]".into(), share: 0.9 }];
    // Hashing sends every day to another partition.
    for day in 3..12 {
        partitions[day as usize % 3].leaders.push(leader(day, 50_000.0));
        // Quiet partitions have leaders of their own.
        let idle = Leader { key: "[\"a\"]".into(), ..leader(day, 900.0) };
        partitions[(day as usize + 1) % 3].leaders.push(idle);
    }
    let all = container(partitions);
    assert_eq!(found(&all), [(FindingKind::SequentialKeys, None)]);
    let finding = &diagnose(&all)[0];
    assert!(finding.summary.contains("day-11") && finding.summary.contains("day-10"), "{finding:?}");
    assert!(finding.evidence.contains(&evidence::number("secondsBetweenLeaders", 60.0)), "{finding:?}");
    // Leaders that come and go without order.
    let mut mixed = all.clone();
    mixed.partitions[2].leaders.push(leader(1, 50_000.0));
    let last = mixed.partitions[2].leaders.last_mut().expect("pushed");
    last.seconds_ago = 60;
    assert_eq!(found(&mixed), [(FindingKind::SingleHotKey, Some(2))]);
    // Busy concurrently, and in order by chance.
    let mut together = all.clone();
    together
        .partitions
        .iter_mut()
        .flat_map(|one| &mut one.leaders)
        .for_each(|leader| leader.seconds_ago = 300);
    assert_eq!(found(&together), [(FindingKind::SingleHotKey, Some(2))]);
    // With enough budget, a leading key that changes does no harm.
    let mut calm = all;
    calm.partitions.iter_mut().for_each(|one| one.budget = Some(10_000.0));
    calm.partitions[2].throttled = 0;
    assert_eq!(found(&calm), HEALTHY);
}

#[test]
fn storage_skew_is_told_without_any_load() {
    let sized = |range_id, size_bytes| PartitionLoad { range_id, size_bytes, ..PartitionLoad::default() };
    let skewed = container(vec![sized(0, 12 * GB), sized(1, 2 * GB), sized(2, 3 * GB)]);
    assert_eq!(found(&skewed), [(FindingKind::StorageSkew, Some(0))]);
    assert!(diagnose(&skewed)[0].remedy.contains("50.0 GB"));
    // Small partitions, and even ones.
    assert_eq!(found(&container(vec![sized(0, 4 * GB), sized(1, GB)])), HEALTHY);
    assert_eq!(found(&container(vec![sized(0, 30 * GB), sized(1, 25 * GB)])), HEALTHY);
    assert_eq!(found(&container(vec![sized(0, 45 * GB)])), HEALTHY);
    // One key holds the data: another remedy, once.
    let mut by_key = skewed.clone();
    by_key.partitions[0].largest_key = Some(("[\"A\"]".into(), 11 * GB));
    assert_eq!(found(&by_key), [(FindingKind::StorageSkew, Some(0))]);
    let finding = &diagnose(&by_key)[0];
    assert!(
        finding.summary.contains("[\"A\"]") && finding.remedy.contains("split does not help"),
        "{finding:?}"
    );
    // Near its limit a key is reported on a partition of its own, too.
    let mut alone = container(vec![sized(0, 19 * GB)]);
    alone.partitions[0].largest_key = Some(("[\"A\"]".into(), 18 * GB));
    assert_eq!(found(&alone), [(FindingKind::StorageSkew, Some(0))]);
}

#[test]
fn a_hot_key_and_a_large_one_are_two_findings() {
    let mut hot = throttled(0.4, partition(1, 950.0));
    hot.keys[0].share = 0.9;
    let mut large = partition(0, 10.0);
    (large.size_bytes, large.largest_key) = (30 * GB, Some(("[\"A\"]".into(), 19 * GB)));
    let all = container(vec![large, hot]);
    assert_eq!(found(&all), [(FindingKind::SingleHotKey, Some(1)), (FindingKind::StorageSkew, Some(0))]);
}

/// A hot key that was refused in some seconds of the last two minutes.
fn hot_key_in(seconds: impl Iterator<Item = u32>) -> ContainerLoad {
    let mut hot = throttled(0.3, partition(0, 700.0));
    hot.keys[0].share = 0.9;
    let busy = |seconds_ago| SecondLoad { seconds_ago, ru: 1000.0, operations: 1000, throttled: 400 };
    let quiet = |seconds_ago| SecondLoad { seconds_ago, ru: 100.0, operations: 100, throttled: 0 };
    let pressed: Vec<u32> = seconds.collect();
    let load = |ago: u32| if pressed.contains(&ago) { busy(ago) } else { quiet(ago) };
    hot.seconds = (1..=120).rev().map(load).collect();
    container(vec![hot, partition(1, 10.0)])
}

#[test]
fn a_finding_says_since_when_it_holds_and_when_it_was_cured() {
    let now = &diagnose(&hot_key_in(1..=40))[0];
    assert_eq!((now.kind, now.spell), (FindingKind::SingleHotKey, Spell { since: Some(40), until: None }));
    assert!(!now.actions.is_empty());
    // Short gaps in the finding are within its spell; a second from long before is not.
    let uneven = (3..=40).filter(|ago| ago % 7 == 0).chain([90]);
    assert_eq!(diagnose(&hot_key_in(uneven))[0].spell, Spell { since: Some(35), until: None });
    let cured = &diagnose(&hot_key_in(25..=40))[0];
    assert_eq!(
        (cured.kind, cured.spell),
        (FindingKind::SingleHotKey, Spell { since: Some(40), until: Some(24) })
    );
    assert_eq!(cured.actions, [], "nothing is left to do");
    assert_eq!(found(&hot_key_in(62..=100)), HEALTHY, "it leaves after a minute");
    let mut skewed = container(vec![partition(0, 10.0), partition(1, 10.0)]);
    skewed.partitions[0].size_bytes = 20 * GB;
    let found = &diagnose(&skewed)[0];
    assert_eq!((found.kind, found.spell), (FindingKind::StorageSkew, Spell::default()));
}
