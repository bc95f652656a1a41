//! The whole of it under load: sums, bounds, memory, time that jumps.

use proptest::prelude::*;
use shardlake_model::{KeyComponent, PartitionKey};
use shardlake_routing::effective_partition_key;
use shardlake_sql::TEMPLATE_BYTES_MAX;

use super::*;

fn definition() -> PartitionKeyDefinition {
    PartitionKeyDefinition::hash("/tenant")
}

fn key(text: &str) -> LogicalKey {
    let partition_key = PartitionKey::single(KeyComponent::String(text.into()));
    LogicalKey { epk: effective_partition_key(&definition(), &partition_key), partition_key }
}

fn heat() -> Heat {
    Heat::new(&definition(), &KeyRange::full())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn sample(logical: &LogicalKey, ru_centi: u64) -> Sample<'_> {
    Sample {
        kind: HeatKind::Write,
        place: HeatPlace::Key(logical),
        ru_centi,
        size_bytes: 10,
        latency: Duration::from_micros(250),
        template: None,
    }
}

proptest! {
    #[test]
    fn every_ring_holds_what_was_recorded(steps in prop::collection::vec((0u64..400, 0u64..100_000, 0usize..6), 1..200)) {
        let (mut heat, mut now, mut total) = (heat(), 0, 0);
        let (tenant, full) = (key("a"), KeyRange::full());
        for (step, ru_centi, kind) in &steps {
            // Rather within the reach of all rings but the first: 200 steps of 400 seconds are 22 hours.
            now += step / 4;
            let kind = HeatKind::ALL[*kind];
            let place = if kind == HeatKind::FanOut { HeatPlace::Span(&full) } else { HeatPlace::Key(&tenant) };
            heat.record(seconds(now), &Sample { kind, place, ..sample(&tenant, *ru_centi) });
            total += ru_centi;
        }
        let report = heat.report(seconds(now + 1), seconds(28 * 86_400));
        prop_assert_eq!((report.totals.ru * 100.0).round() as u64, total);
        prop_assert_eq!(report.totals.operations, steps.len() as u64);
        let in_buckets: f64 = report.buckets.iter().map(|bucket| bucket.ru).sum();
        prop_assert_eq!((in_buckets * 100.0).round() as u64, total);
        let of_kinds: f64 = report.kinds.iter().map(|kind| kind.ru).sum();
        prop_assert_eq!((of_kinds * 100.0).round() as u64, total);
        for series in &report.series[1..] {
            let reach = u64::from(ring::RINGS.iter().find(|ring| ring.0 == series.period_seconds).expect("a ring").1);
            let sum: f64 = series.points.iter().map(|point| point.totals.ru).sum();
            prop_assert!(series.points.len() as u64 <= reach);
            if now + 1 < reach * u64::from(series.period_seconds) {
                prop_assert_eq!((sum * 100.0).round() as u64, total);
            }
            let busiest = |series: &Series| series.points.iter().map(|point| point.totals.busiest_second_ru).fold(0.0, f64::max);
            prop_assert!(busiest(series) <= report.totals.busiest_second_ru);
        }
    }

    #[test]
    fn time_that_jumps_does_no_harm(times in prop::collection::vec(prop_oneof![0u64..10_000, any::<u64>()], 1..60)) {
        let (mut heat, tenant) = (heat(), key("a"));
        for time in &times {
            heat.record(seconds(*time), &sample(&tenant, 100));
            heat.throttle(seconds(time / 2));
        }
        let latest = *times.iter().max().expect("one");
        let report = heat.report(seconds(latest.saturating_add(1)), seconds(u64::MAX));
        let is_beyond = latest >= u64::from(u32::MAX);
        prop_assert!(report.totals.operations >= 1 || is_beyond, "the last second never ends");
        prop_assert!(report.totals.operations <= times.len() as u64);
        heat.report(Duration::ZERO, Duration::ZERO);
        heat.report(Duration::MAX, Duration::MAX);
    }
}

/// Bytes of everything, as the allocator sees it but for its own overhead.
fn size_bytes(heat: &Heat) -> usize {
    let of_key = |key: &LogicalKey| {
        let texts: usize = key
            .partition_key
            .0
            .iter()
            .map(|component| match component {
                KeyComponent::String(text) => text.capacity(),
                _ => 0,
            })
            .sum();
        size_of::<LogicalKey>()
            + 16
            + key.epk.0.capacity()
            + key.partition_key.0.capacity() * size_of::<KeyComponent>()
            + texts
    };
    let summaries =
        heat.keys.heap_bytes(|label| of_key(label)) + heat.templates.heap_bytes(|label| label.len() + 16);
    let leaders: usize = heat.leaders.iter().map(|leader| size_of_val(leader) + of_key(&leader.key)).sum();
    size_of::<Heat>() + heat.rings.heap_bytes() + summaries + leaders + 4 * 1024
}

#[test]
fn a_fully_loaded_partition_stays_below_its_limit() {
    let mut heat = heat();
    let text = |number: u64| format!("{number:08}{}", "k".repeat(KEY_BYTES_MAX - 8));
    let mut now = 0;
    let template =
        |number: u64| -> Arc<str> { format!("{number:08}{}", "t".repeat(TEMPLATE_BYTES_MAX - 8)).into() };
    // Hours at first, minutes at the end, seconds at last: every row of every ring is in use.
    let steps = std::iter::repeat_n(600, 6 * 24 * 29)
        .chain(std::iter::repeat_n(60, 400))
        .chain(std::iter::repeat_n(1, 900));
    for (number, step) in steps.enumerate() {
        now += step;
        let tenant = key(&text(number as u64 / 2 % 500));
        let template = template(number as u64 / 2 % 500);
        heat.record(
            seconds(now),
            &Sample { template: Some(&template), ..sample(&tenant, 1000 + number as u64) },
        );
        heat.record(seconds(now), &Sample { template: Some(&template), ..sample(&tenant, 1000) });
    }
    let report = heat.report(seconds(now), seconds(28 * 86_400));
    assert_eq!(
        report.series.iter().map(|series| series.points.len()).collect::<Vec<_>>(),
        [600, 360, 576, 672]
    );
    let size_bytes = size_bytes(&heat);
    assert!((500_000..HEAT_BYTES_MAX).contains(&size_bytes), "{size_bytes}");
    // The bound holds for all traffic: all that can be there at once.
    let label = KEY_BYTES_MAX + 113 + size_of::<LogicalKey>() + 16 + 3 * size_of::<KeyComponent>();
    let keys = (2 * hitters::HITTERS + leaders::LEADERS_MAX) * label;
    let templates = 2 * hitters::HITTERS * (TEMPLATE_BYTES_MAX + 16);
    let rings: usize = ring::RINGS.iter().map(|ring| (ring.1 as usize + 1) * size_of::<row::Row>()).sum();
    let summaries = 4 * (size_of::<hitters::Summary<Arc<LogicalKey>>>() + hitters::HITTERS * 8);
    let bound =
        size_of::<Heat>() + rings + keys + templates + summaries + 4 * 1024 + 2 * leaders::LEADERS_MAX * 40;
    assert!(bound < HEAT_BYTES_MAX, "{bound}");
    assert!(size_bytes <= bound, "{size_bytes} {bound}");
}

#[test]
fn a_hot_key_and_the_query_that_hits_it_are_named() {
    let (mut heat, full) = (heat(), KeyRange::full());
    let template: Arc<str> = "SELECT * FROM c WHERE c.a = ?".into();
    for number in 0..20_000u64 {
        let hot = number % 2 == 0;
        let tenant = if hot { key("busy") } else { key(&format!("tenant-{number}")) };
        heat.record(seconds(number / 200), &sample(&tenant, 100));
        if number % 10 == 0 {
            let page = Sample {
                kind: HeatKind::FanOut,
                place: HeatPlace::Span(&full),
                template: Some(&template),
                ..sample(&tenant, 300)
            };
            heat.record(seconds(number / 200), &page);
        }
        if number % 20 == 0 {
            heat.throttle(seconds(number / 200));
        }
    }
    let report = heat.report(seconds(100), seconds(60));
    let hottest = &report.recent.keys[0];
    assert_eq!(hottest.key, r#"["busy"]"#);
    assert!((hottest.share - 10_000.0 / 26_000.0).abs() < 0.02, "{hottest:?}");
    assert!(report.recent.keys[1..].iter().all(|key| key.share < 0.01), "{:?}", report.recent.keys);
    assert_eq!(report.recent.templates[0].template, &*template);
    assert_eq!((report.recent.templates[0].ru, report.recent.templates[0].error_ru), (6000.0, 0.0));
    let touched = report.recent.keys_touched;
    assert!((touched.count as f64 / 10_001.0 - 1.0).abs() < 4.0 * touched.error, "{touched:?}");
    assert_eq!(report.recent.keys_created.count, 0);
    // The last 60 of 100 seconds, all of them over.
    assert_eq!(report.totals.operations, 60 * 220);
    assert_eq!(report.totals.busiest_second_ru, 260.0);
    assert!((report.totals.throttled_share - 10.0 / 230.0).abs() < 1e-9);
    assert!((report.normalised_ru(520.0) - 0.5).abs() < 1e-9);
    assert!((report.scan_share() - 60.0 / 260.0).abs() < 1e-9);
    let median = report.recent.load_median.expect("many keys");
    assert!((median.share_below - 0.5).abs() < 0.25, "{median:?}");
}

#[test]
fn a_key_per_minute_shows_as_ascending_leaders() {
    let mut heat = heat();
    for second in 0..20 * 60u64 {
        let day = key(&format!("day-{}", second / 120));
        (0..20).for_each(|_| heat.record(seconds(second), &sample(&day, 100)));
        heat.record(seconds(second), &sample(&key("other"), 300));
    }
    let recent = heat.report(seconds(20 * 60), seconds(60)).recent;
    assert_eq!(recent.leaders_ascending, 10, "{:?}", recent.leaders);
    assert_eq!(recent.leaders.last().expect("one").key, r#"["day-9"]"#);
}

#[test]
fn what_is_idle_reports_nothing_and_ages() {
    let mut heat = heat();
    let empty = heat.report(seconds(5), seconds(60));
    assert_eq!((empty.totals, empty.recent.load_median), (Totals::default(), None));
    heat.record(seconds(10), &sample(&key("a"), 100));
    let open = heat.report(seconds(10), seconds(60));
    assert_eq!((open.recent.keys.len(), open.totals.operations), (1, 0), "the second is not over");
    let later = heat.report(seconds(10 + 3600), seconds(600));
    assert_eq!((later.totals.operations, later.recent.keys.len()), (0, 0));
    assert_eq!(heat.report(seconds(10 + 3600), seconds(7200)).totals.operations, 1);
}

/// A rate is the request units of a time over its length, in every window and at any time of the clock.
#[test]
fn a_constant_load_has_the_same_rate_in_every_window() {
    let (mut heat, tenant) = (heat(), key("a"));
    let (per_second, tick_ms) = (600.0, 50);
    let last_ms = 3 * 86_400 * 1000 + 17 * 60_000 + 29_730;
    // Days by the minute, for the coarse rings; then every tick.
    for minute in 0..3 * 24 * 60 {
        heat.record(seconds(minute * 60), &sample(&tenant, 60 * 600 * 100));
    }
    for ms in (3 * 86_400 * 1000..=last_ms).step_by(tick_ms) {
        heat.record(Duration::from_millis(ms), &sample(&tenant, 600 * 100 * tick_ms as u64 / 1000));
    }
    let rate = |ms: u64, window: u64| {
        let now = Duration::from_millis(ms);
        let report = heat.report(now, seconds(window));
        assert_eq!(heat.totals(now, seconds(window)), report.totals, "window {window}");
        report.totals.ru / f64::from(report.window_seconds)
    };
    for window in [1, 2, 5, 10, 30, 60, 600, 601, 660, 3_600, 21_600, 21_601, 86_400, 2 * 86_400] {
        let measured = rate(last_ms, window);
        assert!((measured / per_second - 1.0).abs() < 0.02, "window {window}: {measured}");
    }
    let lengths = [1, 60, 600, 660]
        .map(|window| heat.report(seconds(3 * 86_400 + 1_049), seconds(window)).window_seconds);
    assert_eq!(lengths, [1, 60, 600, 660 + 29], "to the beginning of a minute");
}
