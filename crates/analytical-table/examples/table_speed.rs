//! Speed of a first copy, of a round and of a compaction on this machine: one table, one thread.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)] // a measurement

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fixture::{Fixture, options, whole};
use serde_json::json;
use shardlake_analytical_table::log::Reason;
use shardlake_analytical_table::rows::Row;
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::{CompactionKind, Ended, Location, Table};

const ROWS: u64 = 1_000_000;

fn main() {
    let root = std::env::args().nth(1).expect("an empty folder");
    let root = Path::new(&root);
    let store = LocalStore::open(&root.join("table")).unwrap();
    let keys = LocalStore::open(&root.join("keys")).unwrap();
    let folders = fixture::folders(Arc::new(store), Arc::new(keys), 1);
    let mut table = Fixture::create(folders, Location::Serving, 1, options());
    let bodies: Vec<_> = (0..4_096u64).map(|number| fixture::body(&document(number))).collect();
    let bytes: usize = bodies.iter().map(|body| body.as_bytes().len()).sum();
    let json: usize = (0..4_096).map(|number| document(number).to_string().len()).sum();
    println!("{} bytes of BSON, {} of JSON an item", bytes / bodies.len(), json / bodies.len());

    let begun = Instant::now();
    table.table.begin(whole(), 0).unwrap();
    for first in (0..ROWS).step_by(4_096) {
        append(&mut table.table, &bodies, first..(first + 4_096).min(ROWS), 0);
    }
    table.table.prepare(&|_| false).unwrap();
    table.table.commit(&table.commit_at(ROWS), Reason::Round).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let status = table.table.status();
    let size = status.bytes as f64 / (ROWS as f64 * (json / bodies.len()) as f64);
    println!(
        "first copy: {:.0} items/s, {} files, {size:.3} of the JSON",
        ROWS as f64 / seconds,
        status.files
    );

    let ended = 200_000;
    let begun = Instant::now();
    table.table.begin(whole(), 0).unwrap();
    for number in 0..ended {
        let ordinal = number * 5;
        table.table.end_version(Ended { ordinal, lsn: ordinal + 1 });
    }
    for first in (0..ended).step_by(4_096) {
        append(&mut table.table, &bodies, first..(first + 4_096).min(ended), ROWS);
    }
    table.table.prepare(&|_| false).unwrap();
    table.table.commit(&table.commit_at(2 * ROWS), Reason::Round).unwrap();
    println!("round of {ended} replacements: {:.2} s", begun.elapsed().as_secs_f64());

    let begun = Instant::now();
    let mut rows = 0;
    while let Some(job) = table.table.plan_compaction(&[whole()], CompactionKind::Due, 0) {
        let compacted = job.run().unwrap();
        rows += job.inputs().iter().map(|file| file.live_rows()).sum::<u64>();
        table.table.commit_compaction(&compacted, 0).unwrap();
    }
    println!("compaction: {:.0} rows/s", rows as f64 / begun.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

fn document(number: u64) -> serde_json::Value {
    let lines: Vec<_> = (0..6)
        .map(|line| {
            json!({"sku": format!("SKU-{}", (number * 31 + line) % 5_000), "name": format!("Product {}", (number * 17 + line) % 900), "quantity": line + 1, "price": (number % 1_000) as f64 / 4.0})
        })
        .collect();
    json!({
        "id": format!("{number:032x}"),
        "pk": format!("customer-{}", number % 700),
        "type": "salesOrder",
        "orderDate": format!("2024-{:02}-{:02}T10:{:02}:00Z", number % 12 + 1, number % 28 + 1, number % 60),
        "shipTo": {"street": format!("{} Main Street", number), "city": format!("City {}", number % 300), "zip": number % 90_000},
        "details": lines,
        "note": "n".repeat((number % 90) as usize),
        "total": number as f64 * 1.25,
    })
}

fn append(table: &mut Table, bodies: &[shardlake_document::Body], range: std::ops::Range<u64>, lsn: u64) {
    let ordinals: Vec<u64> = range.collect();
    let rids: Vec<String> = ordinals.iter().map(|ordinal| fixture::rid(*ordinal)).collect();
    let rows = ordinals.iter().zip(&rids).map(|(ordinal, rid)| Row {
        rid,
        etag: "\"00000000-0000-0000-0000-000000000000\"",
        timestamp_seconds: 1_764_000_000 + ordinal / 1_000,
        lsn: lsn + ordinal + 1,
        ordinal: *ordinal,
        body: bodies[(*ordinal % 4_096) as usize].raw(),
    });
    table.append(&rows.collect::<Vec<_>>()).unwrap();
}
