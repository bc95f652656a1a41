//! Versions of tables: the rows of a statement are those that the table's own reader gives.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};
use shardlake_analytics_sql::{AsOf, FailureKind, Format, ListedTable, Pool};
use shardlake_stdx::Random;

use crate::fixture::{self, Change, Fixture, START};
use crate::support::{Shop, listed, pool, query, rows, runtime, table, text_of};

fn chance(random: &Random, of: u64) -> bool {
    random.below(of) == 0
}

/// Documents that grow: later turns bring members and levels which earlier files lack.
fn document(random: &Random, ordinal: u64, turn: u64) -> Value {
    let mut members = Map::new();
    members.insert("id".into(), format!("i{ordinal}").into());
    members.insert("pk".into(), format!("p{}", ordinal % 5).into());
    members.insert("turn".into(), turn.into());
    if chance(random, 2) {
        members.insert("price".into(), (random.below(1_000) as f64 / 8.0 + 0.125).into());
    }
    let mut inner = json!({ "a": random.below(9) });
    if turn > 1 {
        inner["text"] = format!("t{}", random.below(50)).into();
    }
    if turn > 3 {
        inner["deeper"] = json!({ "flag": chance(random, 2), "list": [random.below(3), null] });
    }
    if !chance(random, 4) {
        members.insert("o".into(), inner);
    }
    if turn > 2 && !chance(random, 3) {
        let lines = (0..random.below(3)).map(|line| {
            if turn > 4 {
                json!({ "sku": format!("s{line}"), "q": line })
            } else {
                json!({ "sku": format!("s{line}") })
            }
        });
        members.insert("lines".into(), lines.collect());
    }
    Value::Object(members)
}

fn changes(random: &Random, fixture: &Fixture, turn: u64) -> Vec<Change> {
    let put = (0..random.below(40) + 1).map(|_| {
        let ordinal = random.below(120);
        Change::Put(ordinal, document(random, ordinal, turn))
    });
    let mut changes: Vec<Change> = put.collect();
    let gone: Vec<u64> = fixture.items.keys().copied().filter(|_| chance(random, 6)).collect();
    changes.extend(gone.into_iter().map(Change::Delete));
    changes
}

/// Rows by `_rid`, in the form of [`fixture::expected`].
fn shown(
    pool: &Pool,
    runtime: &tokio::runtime::Runtime,
    mut query: shardlake_analytics_sql::Query,
) -> BTreeMap<String, Value> {
    query.format = Format::JsonLines;
    let text = runtime.block_on(text_of(pool, query)).unwrap();
    let rows = text.lines().map(|line| {
        let row = fixture::plain(serde_json::from_str(line).unwrap());
        (row["_rid"].as_str().unwrap().to_owned(), row)
    });
    rows.collect()
}

struct Checked<'a> {
    pool: &'a Pool,
    runtime: &'a tokio::runtime::Runtime,
    tables: &'a [ListedTable],
}

impl Checked<'_> {
    fn check(&self, fixture: &Fixture) {
        let expected = fixture::expected(&fixture.items);
        let of = |statement: &str| query(statement, self.tables);
        assert_eq!(shown(self.pool, self.runtime, of("SELECT * FROM c")), expected);
        assert_eq!(rows(self.pool, self.runtime, of("SELECT count(*) FROM c")), json!([[expected.len()]]));
        for key in 0..5 {
            let condition = |row: &&Value| row["pk"] == format!("p{key}") && row["turn"].as_u64() > Some(2);
            let count = expected.values().filter(condition).count();
            let found = of(&format!("SELECT count(*) FROM c WHERE pk = 'p{key}' AND turn > 2"));
            assert_eq!(rows(self.pool, self.runtime, found), json!([[count]]), "p{key}");
        }
        let sum: i64 = expected.values().filter_map(|row| row["o"]["a"].as_i64()).sum();
        let found = of("SELECT coalesce(sum(o['a']), 0) FROM c");
        assert_eq!(rows(self.pool, self.runtime, found), json!([[sum]]));
        let lines = expected.values().filter_map(|row| row["lines"].as_array()).map(Vec::len).sum::<usize>();
        if fixture.table.schema().fields().by_column("lines").is_some() {
            let found = of("SELECT count(*) FROM (SELECT unnest(lines) AS line FROM c)");
            assert_eq!(rows(self.pool, self.runtime, found), json!([[lines]]));
        }
    }
}

fn follow(folder: &Path, seed: u64, turns: Range<u64>) {
    let random = Random::seeded(seed);
    let mut options = fixture::options();
    options.checkpoint_every = 3;
    options.sizes.row_group_rows = 16;
    let mut fixture = table(folder, "c", options);
    let (pool, runtime, tables) = (pool(folder), runtime(), vec![listed(folder, "c")]);
    let checked = Checked { pool: &pool, runtime: &runtime, tables: &tables };
    let mut versions = Vec::new();
    for turn in turns {
        let changes = changes(&random, &fixture, turn);
        let version = fixture.round(&changes).unwrap();
        checked.check(&fixture);
        versions.push((version, fixture.seconds, fixture::expected(&fixture.items)));
    }
    for (version, seconds, expected) in versions {
        let mut by_number = query("SELECT * FROM c", &tables);
        by_number.as_of = AsOf::Versions(BTreeMap::from([("shop/c".into(), version)]));
        assert_eq!(shown(&pool, &runtime, by_number), expected, "version {version}");
        let mut by_time = query("SELECT * FROM c", &tables);
        by_time.as_of = AsOf::Time(seconds * 1_000 + 500);
        assert_eq!(shown(&pool, &runtime, by_time), expected, "at {seconds}");
    }
}

#[test]
fn statements_see_the_rows_of_every_version() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        follow(folder.path(), seed, 0..7);
    }
}

#[test]
fn every_kind_of_table_is_read() {
    let root = tempfile::tempdir().unwrap();
    crate::write_tables::write(root.path(), 2);
    let (pool, runtime) = (pool(root.path()), runtime());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.path()).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().unwrap().to_str().unwrap().strip_suffix(".jsonl") else { continue };
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let expected: BTreeMap<String, Value> =
            lines.map(|row| (row["_rid"].as_str().unwrap().to_owned(), row)).collect();
        let tables = [listed(root.path(), name)];
        let all = query(&format!("SELECT * FROM {name}"), &tables);
        assert_eq!(shown(&pool, &runtime, all), expected, "{name}");
        let count = query(&format!("SELECT count(*) FROM {name}"), &tables);
        assert_eq!(rows(&pool, &runtime, count), json!([[expected.len()]]), "{name}");
        names.push(name.to_owned());
    }
    assert!(names.len() > 9, "{names:?}");
}

#[test]
fn rows_past_their_time_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = table(folder.path(), "c", fixture::options());
    let item = |id: &str| json!({ "id": id, "pk": "p" });
    fixture.round(&[Change::Put(1, item("old"))]).unwrap();
    fixture.seconds = START + 500;
    fixture.round(&[Change::Put(2, item("new"))]).unwrap();
    let (pool, runtime) = (pool(folder.path()), runtime());
    let mut tables = vec![listed(folder.path(), "c")];
    // A query of support.rs begins at START + 1000.
    for (ttl, ids) in [(-1, json!([["new"], ["old"]])), (600, json!([["new"]])), (10, json!([]))] {
        tables[0].ttl = ttl;
        let found = rows(&pool, &runtime, query("SELECT id FROM c ORDER BY id", &tables));
        assert_eq!(found, ids, "{ttl}");
        let count = rows(&pool, &runtime, query("SELECT count(*) FROM c", &tables));
        assert_eq!(count, json!([[ids.as_array().unwrap().len()]]), "{ttl}");
    }
}

#[test]
fn files_without_matching_rows_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = table(folder.path(), "c", fixture::options());
    for file in 0..4_u64 {
        let items = (0..500_u64).map(|at| {
            let ordinal = file * 500 + at;
            Change::Put(
                ordinal,
                json!({ "id": format!("i{ordinal}"), "pk": format!("p{file}"), "n": ordinal }),
            )
        });
        fixture.round(&items.collect::<Vec<_>>()).unwrap();
    }
    let tables = vec![listed(folder.path(), "c")];
    let (pool, runtime) = (pool(folder.path()), runtime());
    let read = |statement: &str| {
        let answer = runtime.block_on(crate::support::answered(&pool, query(statement, &tables))).unwrap();
        (answer["rows"].clone(), answer["statistics"]["bytesRead"].as_u64().unwrap())
    };
    let (all, all_bytes) = read("SELECT sum(n) FROM c");
    assert_eq!(all, json!([[1999 * 1000]]));
    let (one, one_bytes) = read("SELECT sum(n) FROM c WHERE pk = 'p2'");
    assert_eq!(one, json!([[(1_000..1_500).sum::<u64>()]]));
    assert!(one_bytes < all_bytes / 2, "{one_bytes} of {all_bytes}");
    let (_, none_bytes) = read("SELECT count(*) FROM c WHERE n > 5000");
    assert_eq!(none_bytes, 0);
    let (count, count_bytes) = read("SELECT count(*) FROM c");
    assert_eq!((count, count_bytes), (json!([[2000]]), 0));
}

#[test]
fn a_damaged_file_and_a_missing_version_have_their_errors() {
    let shop = Shop::new([json!({ "id": "a", "pk": "p", "n": 1 })]);
    let mut ended = shop.query("SELECT * FROM c");
    ended.as_of = AsOf::Versions(BTreeMap::from([("shop/c".into(), 99)]));
    assert_eq!(shop.failure(ended).kind, FailureKind::VersionGone);
    let data = shop.folder.path().join("c").join("g1");
    for file in std::fs::read_dir(&data).unwrap() {
        std::fs::write(file.unwrap().path(), b"no Parquet").unwrap();
    }
    let failure = shop.failure(shop.query("SELECT * FROM c"));
    assert_eq!(failure.kind, FailureKind::Damaged, "{failure:?}");
    assert!(failure.message.contains("damaged part-"), "{failure:?}");
}
