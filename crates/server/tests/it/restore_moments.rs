//! Restores to points in time between two backups: a restored account has the writes acknowledged before, and none sent later.

use std::path::Path;

use serde_json::json;
use shardlake_stdx::{Clock, Random};
use shardlake_testkit::{Client, ServerOptions, ServerProcess};

use crate::backup_support::{
    complaint, create, endpoint, everything, id_of, make_container, options, printed, text_of, verify,
};
use crate::stores::Account;
use crate::support::{PATIENCE, assert_healthy, on_disk};

const WINDOW: &str = "--restore-window=1h";

/// Something that a client did: when it was sent and acknowledged, in milliseconds, and by which key `everything` shows it.
struct Step {
    sent: u64,
    acknowledged: u64,
    shown: Shown,
}

enum Shown {
    Item(String),
    Gone(String),
    Container(String),
}

#[derive(Default)]
struct History {
    steps: Vec<Step>,
}

fn now() -> u64 {
    Clock::System.now().milliseconds()
}

impl History {
    fn note(&mut self, shown: Shown, work: impl FnOnce()) {
        let sent = now();
        work();
        self.steps.push(Step { sent, acknowledged: now(), shown });
    }

    /// Items come and go in five partitions, and a container comes.
    fn write(&mut self, client: &Client, numbers: std::ops::Range<usize>) {
        let id = |number: usize| number.to_string();
        for number in numbers {
            let item = json!({ "id": id(number), "pk": number % 20, "text": "x".repeat(number * 37 % 3000) });
            self.note(Shown::Item(id(number)), || {
                let _item = client.create_item("db", "c", &json!([number % 20]), &item).expect_status(201);
            });
            if number % 3 == 2 {
                let gone = number - 1;
                self.note(Shown::Gone(id(gone)), || {
                    let _gone =
                        client.delete_item("db", "c", &json!([gone % 20]), &id(gone)).expect_status(204);
                });
            }
            if number % 50 == 49 {
                let name = format!("c{number}");
                self.note(Shown::Container(name.clone()), || make_container(client, &name));
            }
        }
    }

    fn check(&self, restored: &Client, moment: u64) {
        let found = everything(restored);
        let items: Vec<String> = found["/dbs/db/colls/c/docs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect();
        let has = |shown: &Shown| match shown {
            Shown::Item(id) => items.contains(id),
            Shown::Gone(id) => !items.contains(id),
            Shown::Container(name) => found.contains_key(&format!("/dbs/db/colls/{name}/docs")),
        };
        let is_undone = |id: &str, at: u64| {
            let is_it =
                |step: &Step| matches!(&step.shown, Shown::Gone(gone) if gone == id) && step.sent <= at;
            self.steps.iter().any(is_it)
        };
        for step in &self.steps {
            let name = match &step.shown {
                Shown::Item(name) | Shown::Gone(name) | Shown::Container(name) => name,
            };
            match &step.shown {
                // Deleted before the point in time, or perhaps.
                Shown::Item(id) if is_undone(id, moment) => {}
                // Read before the item existed.
                Shown::Gone(_) if step.sent > moment => {}
                shown if step.acknowledged < moment => {
                    assert!(has(shown), "{name} is not as it was before {moment}")
                }
                shown if step.sent > moment => assert!(!has(shown), "{name} is of after {moment}"),
                _ => {}
            }
        }
    }

    fn random_moment(&self, random: &Random) -> u64 {
        let (first, last) = (self.steps.first().unwrap().sent, self.steps.last().unwrap().acknowledged);
        first + random.below(last - first)
    }
}

/// `2026-11-23T08:17:08.123Z`.
fn utc(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    // Days from the first of March of the year 0.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, year) = (day - (153 * month + 2) / 5 + 1, year + era * 400 + u64::from(month >= 10));
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", milliseconds % 1000)
}

fn restore_to(from: &Path, moment: u64, to: &[&str]) -> String {
    let time = utc(moment);
    let arguments = ["backup", "restore", "--from", text_of(from), "--time", &time];
    printed(&[&arguments[..], to].concat(), 0)
}

fn serve_and_check(history: &History, server: ServerOptions, moment: u64) {
    let server: ServerProcess = server.start();
    history.check(&server.client(), moment);
    assert_healthy(&server);
    drop(server);
}

#[test]
fn a_local_account_is_restored_to_twenty_moments_between_two_backups() {
    let directory = crate::backup_support::directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 2).argument(WINDOW).start();
    let _database = server.client().create_database("db").expect_status(201);
    make_container(&server.client(), "c");
    let _first = create(&server, &place);
    let mut history = History::default();
    history.write(&server.client(), 0..150);
    server.kill();
    server.restart();
    history.write(&server.client(), 150..250);
    let middle = create(&server, &place);
    history.write(&server.client(), 250..350);
    let too_late = complaint(&[
        "backup",
        "restore",
        "--from",
        text_of(&place),
        "--time",
        &utc(now()),
        "--data-dir",
        "/nowhere",
    ]);
    assert!(too_late.contains("make one now"), "{too_late}");
    // The server is dead; its data directory is enough.
    server.kill();
    let made = printed(&["backup", "create", "--data-dir", text_of(&data), "--to", text_of(&place)], 0);
    assert!(made.contains("created"), "{made}");
    let random = Random::System;
    for number in 0..20 {
        let (moment, restored) = (history.random_moment(&random), directory.path().join(number.to_string()));
        let said = restore_to(&place, moment, &["--data-dir", text_of(&restored)]);
        assert!(said.contains(&utc(moment)), "{said}");
        verify(&[text_of(&restored)]);
        serve_and_check(&history, on_disk().data_dir(&restored), moment);
    }
    printed(&["backup", "check", "--from", text_of(&place)], 0);
    // A backup with a log is restored without it as well.
    let plain = directory.path().join("plain");
    printed(
        &[
            "backup",
            "restore",
            "--from",
            text_of(&place),
            "--id",
            id_of(&middle),
            "--data-dir",
            text_of(&plain),
        ],
        0,
    );
    assert!(!plain.join("shard/history").exists());
    verify(&[text_of(&plain)]);
}

#[test]
fn an_account_in_a_store_is_restored_to_moments_between_two_backups() {
    let account = Account::new();
    let place = account.path("backups");
    let mut server = account.node("one", &["--shards=2", "--write-buffer-size=1MiB", WINDOW]).start();
    let _database = server.client().create_database("db").expect_status(201);
    make_container(&server.client(), "c");
    let _first = create(&server, &place);
    let mut history = History::default();
    history.write(&server.client(), 0..100);
    server.kill();
    server.restart();
    history.write(&server.client(), 100..150);
    let _last = create(&server, &place);
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());
    for number in 0..5 {
        let moment = history.random_moment(&Random::System);
        let url = format!("file://{}", account.path(&format!("restored-{number}")).display());
        restore_to(&place, moment, &["--store", &url]);
        let node =
            on_disk().data_dir(account.path(&format!("node-{number}"))).argument(format!("--store={url}"));
        serve_and_check(
            &history,
            node.argument("--lease=3").may_log("the lease could not be renewed"),
            moment,
        );
        verify(&[&url]);
    }
}

#[test]
fn moments_that_no_log_covers_are_refused_by_name() {
    let directory = crate::backup_support::directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let refused = |time: u64, name: &str| {
        let to = directory.path().join(name);
        complaint(&[
            "backup",
            "restore",
            "--from",
            text_of(&place),
            "--time",
            &utc(time),
            "--data-dir",
            text_of(&to),
        ])
    };
    // Without a log.
    let mut server = options(&data, 1).start();
    let _database = server.client().create_database("db").expect_status(201);
    make_container(&server.client(), "c");
    let _none = create(&server, &place);
    assert!(refused(now(), "none").contains("--restore-window"));
    assert!(server.terminate(PATIENCE).success());
    // With one, then without, then with another.
    let mut server = options(&data, 1).argument(WINDOW).start();
    let mut history = History::default();
    history.write(&server.client(), 0..5);
    let _state = create(&server, &place);
    history.write(&server.client(), 5..10);
    let covered = now();
    assert!(server.terminate(PATIENCE).success());
    assert!(data.join("shard/history").exists());
    let mut server = options(&data, 1).start();
    assert!(!data.join("shard/history").exists(), "no log is kept any more");
    history.write(&server.client(), 10..15);
    assert!(server.terminate(PATIENCE).success());
    let server = options(&data, 1).argument(WINDOW).start();
    history.write(&server.client(), 15..20);
    let hole = now();
    history.write(&server.client(), 20..25);
    let _later = create(&server, &place);
    for moment in [covered, hole] {
        let said = refused(moment, &format!("hole-{moment}"));
        assert!(said.contains("does not lead from") && said.contains("nothing was restored"), "{said}");
    }
    assert!(refused(1_000_000_000_000, "early").contains("before the oldest backup"));
    verify(&[text_of(&data), "--online", "--endpoint", &endpoint(&server)]);
    let wrong = complaint(&["serve", "--durability=memory", WINDOW]);
    assert!(wrong.contains("--restore-window"), "{wrong}");
}

/// Microsoft's samples make containers without a policy, in accounts with continuous backup.
#[test]
fn all_versions_of_every_container_are_kept_for_the_window() {
    let directory = tempfile::tempdir().unwrap();
    let server = options(&directory.path().join("data"), 1).argument(WINDOW).start();
    let client = server.client();
    let _made = client.create_database("db").expect_status(201);
    let _made = client.create_container("db", "c", "/pk").expect_status(201);
    let feed = |position: &str| {
        client.get("/dbs/db/colls/c/docs", &[("a-im", "Full-Fidelity Feed"), ("if-none-match", position)])
    };
    let start = feed("*").expect_status(304);
    let position = start.header("etag").expect("an etag").to_owned();
    let key = json!(["k"]);
    let _made = client.create_item("db", "c", &key, &json!({ "id": "a", "pk": "k" })).expect_status(201);
    let _gone = client.delete_item("db", "c", &key, "a").expect_status(204);
    let page = feed(&position).expect_status(200).json();
    assert_eq!(page["Documents"][1]["metadata"]["operationType"], "delete", "{page}");
    assert_healthy(&server);
}
