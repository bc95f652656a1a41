//! Members of objects that a row does not have: NULL, wherever the object itself is missing or NULL.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shardlake_analytical_table::table::CompactionKind;
use shardlake_stdx::Random;

use crate::fixture::{self, Change, Fixture};
use crate::support::{listed, pool, query, rows, runtime, table};

/// Statements in which the engine makes objects in memory, with the value of `o['n']` for each row by its id.
const MADE: [&str; 7] = [
    "SELECT id, o['n'] FROM c",
    "SELECT id, x['n'] FROM (SELECT id, o AS x FROM c ORDER BY o['n'] DESC, id)",
    "SELECT id, (CASE WHEN id = 'none' THEN NULL ELSE o END)['n'] FROM c",
    "SELECT id, coalesce(NULL, o)['n'] FROM c",
    "SELECT id, x['n'] FROM (SELECT id, first_value(o) AS x FROM c GROUP BY id)",
    "SELECT a.id, b.o['n'] FROM c a LEFT JOIN (SELECT * FROM c WHERE o IS NOT NULL) b ON b.id = a.id",
    "SELECT id, x['n'] FROM (SELECT id, o AS x FROM c WHERE id < 'b' UNION ALL SELECT id, o FROM c WHERE id >= 'b')",
];

fn put(at: u64, id: &str, rest: Value) -> Change {
    let mut document = json!({ "id": id, "pk": "p" });
    document.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    Change::Put(at, document)
}

#[test]
fn a_member_of_a_missing_object_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = table(folder.path(), "c", fixture::options());
    table
        .round(&[
            put(0, "a", json!({ "o": { "n": 1, "m": { "x": 1 } }, "l": [{ "q": 1 }, null] })),
            put(1, "b", json!({})),
            put(2, "c", json!({ "o": { "m": null } })),
            put(3, "d", json!({ "o": { "n": 0, "m": { "x": 0 } }, "l": [] })),
        ])
        .unwrap();
    // A file without the column, one with a new member, and rows of earlier files that are written anew.
    table.round(&[put(4, "e", json!({})), put(5, "f", json!({ "o": null }))]).unwrap();
    table.round(&[put(6, "g", json!({ "o": { "late": { "y": 7 } } })), put(7, "h", json!({}))]).unwrap();
    table.round(&[put(0, "a", json!({})), put(1, "b", json!({ "o": { "n": 5 } }))]).unwrap();
    let (pool, runtime, tables) = (pool(folder.path()), runtime(), [listed(folder.path(), "c")]);
    let of = |statement: &str| rows(&pool, &runtime, query(statement, &tables));
    for (statement, expected) in [
        (
            "SELECT id, o['n'], o['m']['x'], o['late']['y'], o IS NULL FROM c ORDER BY id",
            json!([
                ["a", null, null, null, true],
                ["b", 5, null, null, false],
                ["c", null, null, null, false],
                ["d", 0, 0, null, false],
                ["e", null, null, null, true],
                ["f", null, null, null, true],
                ["g", null, null, 7, false],
                ["h", null, null, null, true]
            ]),
        ),
        ("SELECT id FROM c WHERE o['n'] = 0 OR o['m']['x'] = 0", json!([["d"]])),
        ("SELECT id FROM c WHERE o['late']['y'] IS NOT NULL", json!([["g"]])),
        ("SELECT count(*) FROM c WHERE o['m']['x'] IS NULL", json!([[7]])),
        ("SELECT count(o), count(o['n']), count(o['m']), sum(o['n']) FROM c", json!([[4, 2, 1, 5]])),
        ("SELECT o['n'], count(*) FROM c GROUP BY 1 ORDER BY 1", json!([[0, 1], [5, 1], [null, 6]])),
        (
            "SELECT id, l[1]['q'], l[2]['q'] FROM c WHERE id IN ('a', 'd', 'e') ORDER BY id",
            json!([["a", null, null], ["d", null, null], ["e", null, null]]),
        ),
        ("SELECT nullif(o['n'], 5) FROM c WHERE id = 'b'", json!([[null]])),
    ] {
        assert_eq!(of(statement), expected, "{statement}");
    }
    let expected = of("SELECT id, o['n'] FROM c ORDER BY id");
    for statement in MADE {
        assert_eq!(
            of(&format!("SELECT * FROM ({statement}) AS made(id, n) ORDER BY id")),
            expected,
            "{statement}"
        );
    }
    // The whole object is NULL where another expression makes it so.
    for made in ["CASE WHEN id = 'x' THEN o END", "lag(o, 100) OVER (ORDER BY id)"] {
        let statement = format!("SELECT count(x['n']), count(x['m']['x']) FROM (SELECT {made} AS x FROM c)");
        assert_eq!(of(&statement), json!([[0, 0]]), "{statement}");
    }
}

/// Documents whose objects come and go, at two levels.
fn document(random: &Random, ordinal: u64, turn: u64) -> Value {
    let mut members = Map::from_iter([
        ("id".to_owned(), format!("i{ordinal}").into()),
        ("pk".to_owned(), format!("p{}", ordinal % 3).into()),
    ]);
    if turn.is_multiple_of(3) || random.below(2) == 0 {
        return Value::Object(members);
    }
    let mut inner = json!({ "n": random.below(3) });
    if turn > 2 && random.below(2) == 0 {
        inner["m"] = json!({ "x": random.below(3) });
    }
    members.insert("o".into(), if random.below(5) == 0 { Value::Null } else { inner });
    Value::Object(members)
}

fn check(fixture: &Fixture, of: &dyn Fn(&str) -> Value) {
    let expected = fixture::expected(&fixture.items);
    let has = |path: &str| {
        let fields = fixture.table.schema().fields();
        fields.by_column("o").is_some() && expected.values().any(|row| row.pointer(path).is_some())
    };
    for (member, pointer) in [("o['n']", "/o/n"), ("o['m']['x']", "/o/m/x")] {
        if !has(pointer) {
            continue;
        }
        let value = |row: &Value| row.pointer(pointer).cloned().unwrap_or_default();
        let wanted: BTreeMap<String, Value> =
            expected.iter().map(|(rid, row)| (rid.clone(), value(row))).collect();
        let found = of(&format!("SELECT _rid, {member} FROM c"));
        let found = found.as_array().unwrap().iter();
        let found: BTreeMap<String, Value> =
            found.map(|row| (row[0].as_str().unwrap().to_owned(), row[1].clone())).collect();
        assert_eq!(found, wanted, "{member}");
        let zeros = wanted.values().filter(|value| **value == json!(0)).count();
        assert_eq!(of(&format!("SELECT count(*) FROM c WHERE {member} = 0")), json!([[zeros]]), "{member}");
        let nulls = wanted.values().filter(|value| value.is_null()).count();
        assert_eq!(
            of(&format!("SELECT count(*) FROM c WHERE {member} IS NULL")),
            json!([[nulls]]),
            "{member}"
        );
    }
}

#[test]
fn members_are_null_in_every_version_of_random_tables() {
    for seed in 0..3 {
        let random = Random::seeded(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut options = fixture::options();
        options.sizes.row_group_rows = 8;
        let mut table = table(folder.path(), "c", options);
        let (pool, runtime, tables) = (pool(folder.path()), runtime(), [listed(folder.path(), "c")]);
        for turn in 0..8 {
            let put = (0..random.below(12) + 1).map(|_| {
                let ordinal = random.below(30);
                Change::Put(ordinal, document(&random, ordinal, turn))
            });
            table.round(&put.collect::<Vec<_>>()).unwrap();
            check(&table, &|statement| rows(&pool, &runtime, query(statement, &tables)));
        }
        if let Some(job) = table.table.plan_compaction(&[fixture::whole()], CompactionKind::Full, 0) {
            let compacted = job.run().unwrap();
            table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap();
        }
        check(&table, &|statement| rows(&pool, &runtime, query(statement, &tables)));
    }
}
