//! The texts' fleet of devices: a container keyed by device, and questions about days and cities, which no partition key answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shardlake_analytical_table::table::CompactionKind;

use crate::fixture::{self, Change, Fixture};
use crate::support::{answered, listed, pool, query, read, runtime, table};

const DEVICES: u64 = 20;
const DAYS: u64 = 30;
const HOURS: u64 = 24;
const CITIES: [&str; 4] = ["Seattle", "Denver", "Chicago", "Toronto"];
/// The last day of the readings.
const YESTERDAY: &str = "2026-11-30";

fn reading(number: u64) -> Value {
    let (device, hour, day) = (number % DEVICES, number / DEVICES % HOURS, number / DEVICES / HOURS);
    json!({
        "id": format!("r{number}"),
        "deviceId": format!("device-{device}"),
        "date": format!("2026-11-{:02}", day + 1),
        "at": format!("2026-11-{:02}T{hour:02}:00:00Z", day + 1),
        "city": CITIES[device as usize % CITIES.len()],
        "temperature": (number * 7919 % 400) as f64 / 10.0,
        "kilometres": number * 31 % 120,
        "note": format!("reading {} of the day, checked by {}", hour, number * 104_729 % 9973),
    })
}

/// Devices send late: each round has readings of many days.
fn fill(table: &mut Fixture) {
    let all = DEVICES * DAYS * HOURS;
    let mut order: Vec<u64> = (0..all).collect();
    order.sort_by_key(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for round in order.chunks(all as usize / 4) {
        let changes: Vec<Change> =
            round.iter().map(|number| Change::Put(*number, reading(*number))).collect();
        table.round(&changes).unwrap();
    }
}

#[test]
fn yesterday_reads_a_tenth_of_a_table_that_is_clustered_by_date() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, runtime) = (pool(folder.path()), runtime());
    let mut options = fixture::options();
    options.sizes.row_group_rows = 480;
    options.cluster_by = vec![vec!["date".to_owned()]];
    options.stats_keys = vec![vec!["deviceId".to_owned()], vec!["date".to_owned()]];
    let mut table = table(folder.path(), "fleet", options);
    fill(&mut table);
    let tables = [listed(folder.path(), "fleet")];
    let statement = format!("SELECT * FROM fleet WHERE date = '{YESTERDAY}'");
    let bytes_read = |statement: &str| {
        let answer = runtime.block_on(pool.run(query(statement, &tables))).unwrap();
        let (_, statistics) = runtime.block_on(read(answer)).unwrap();
        (statistics.bytes_read, statistics.rows)
    };
    let (before, rows) = bytes_read(&statement);
    assert_eq!(rows, DEVICES * HOURS);

    let job =
        table.table.plan_compaction(&[fixture::whole()], CompactionKind::Full, 0).expect("four small files");
    let compacted = job.run().unwrap();
    table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap().expect("committed");

    let size = table.table.status().bytes;
    let (after, rows) = bytes_read(&statement);
    assert_eq!(rows, DEVICES * HOURS);
    assert!(after * 10 <= size, "{after} of {size} bytes are read");
    assert!(before > size / 2, "readings in the order of their arrival: {before} of {size} bytes are read");
}

#[test]
fn totals_by_city_are_one_statement() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, runtime) = (pool(folder.path()), runtime());
    let mut table = table(folder.path(), "fleet", fixture::options());
    fill(&mut table);
    let tables = [listed(folder.path(), "fleet")];
    let statement =
        "SELECT city, count(*), sum(kilometres), max(temperature) FROM fleet GROUP BY city ORDER BY city";
    let answer = runtime.block_on(answered(&pool, query(statement, &tables))).unwrap();

    let mut cities: BTreeMap<String, (u64, u64, f64)> = BTreeMap::new();
    for reading in (0..DEVICES * DAYS * HOURS).map(reading) {
        let total = cities.entry(reading["city"].as_str().unwrap().to_owned()).or_insert((0, 0, f64::MIN));
        total.0 += 1;
        total.1 += reading["kilometres"].as_u64().unwrap();
        total.2 = total.2.max(reading["temperature"].as_f64().unwrap());
    }
    let expected: Vec<Value> =
        cities.into_iter().map(|(city, (count, sum, most))| json!([city, count, sum, most])).collect();
    assert_eq!(answer["rows"], Value::Array(expected));
}
