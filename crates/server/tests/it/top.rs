//! `shardlake top`: figures for scripts, and the terminal before, during and after the live view.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};
use shardlake_testkit::{ServerProcess, eventually};

use crate::support::{command, in_memory, refused};
use crate::terminal;

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

fn busy_server() -> (ServerProcess, String) {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/tenant"], "kind": "Hash", "version": 2 });
    let body = json!({ "id": "orders", "partitionKey": key });
    let _container =
        client.create_container_of("shop", &body, &[("x-ms-offer-throughput", "1000")]).expect_status(201);
    for number in 0..30 {
        let item = json!({ "id": number.to_string(), "tenant": "A" });
        let _item = client.create_item("shop", "orders", &json!(["A"]), &item).expect_status(201);
    }
    let endpoint = format!("http://{}", server.address());
    (server, endpoint)
}

#[test]
fn scripts_get_the_load_of_containers_and_partitions_once() {
    let (_server, endpoint) = busy_server();
    let once = |more: &[&str]| {
        let arguments = [&["top", "--once", "--window=600", "--endpoint", &endpoint][..], more].concat();
        let output = command(&arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut sample = Value::Null;
    // A second counts when it is over.
    eventually("load", || {
        let text = once(&["--format=json"]);
        assert_eq!(text.lines().count(), 1, "{text}");
        sample = serde_json::from_str(&text).unwrap();
        sample["ruPerSecond"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    let container = &sample["containers"][0];
    assert_eq!((&container["database"], &container["container"]), (&json!("shop"), &json!("orders")));
    assert_eq!((&container["items"], &sample["containersNotShown"]), (&json!(30), &json!(0)));
    let partition = &container["partitions"][0];
    for figures in [&sample, container, partition] {
        for name in ["operationsPerSecond", "ruPerSecond"] {
            assert!(figures[name].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {figures}");
        }
        assert_eq!(figures["throttledPerSecond"], 0.0, "{figures}");
    }
    assert!(partition["budgetRuPerSecond"].as_f64().is_some_and(|budget| budget >= 400.0), "{partition}");
    assert_eq!(partition["hottestKeys"][0]["key"], r#"["A"]"#);
    for name in ["connections", "memoryBytes"] {
        assert!(sample["process"].get(name).is_some(), "{name}: {sample}");
    }
    let table = once(&[]);
    for words in ["container / partition", "shop/orders", "0 on shard 0", r#"["A"]"#, "connections"] {
        assert!(table.contains(words), "{words} in {table}");
    }
    assert!(!table.contains('\x1b'), "no terminal: {table}");
    let gone = refused(&mut command(&["top", "--endpoint", "http://127.0.0.1:1"]));
    assert!(gone.contains("no connection"), "{gone}");
}

/// A terminal with `top` in it.
struct Terminal {
    master: File,
    /// Keeps the terminal while no process has it.
    slave: File,
    child: Child,
    seen: String,
}

impl Terminal {
    fn open(endpoint: &str) -> Terminal {
        let (master, slave) = terminal::open();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = command(&["top", "--endpoint", endpoint]);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Terminal { master, slave, child, seen: String::new() }
    }

    fn read_until(&mut self, words: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(words) {
            let count = self.master.read(&mut bytes).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The end of the view: exit code 0, and the terminal as it was.
    #[track_caller]
    fn expect_restored(mut self) {
        self.read_until(LEFT);
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.seen);
        assert!(!self.is_raw(), "{}", self.seen);
        assert!(self.seen.contains("\x1b[?25h"), "the cursor is shown: {}", self.seen);
    }
}

#[test]
fn a_key_or_a_signal_ends_the_view_and_the_terminal_is_as_it_was() {
    let (_server, endpoint) = busy_server();
    let mut terminal = Terminal::open(&endpoint);
    assert!(!terminal.is_raw());
    terminal.read_until("q ends the view");
    assert!(terminal.is_raw() && terminal.seen.starts_with(ENTERED), "{}", terminal.seen);
    assert!(terminal.seen.contains("shop/orders"), "{}", terminal.seen);
    let longest = terminal.seen.split("\r\n").skip(1).map(|line| line.chars().count()).max();
    // Colours and the end of the line are no columns.
    assert!(longest.is_some_and(|length| length <= 60 + 16), "{longest:?}: {}", terminal.seen);
    terminal.master.write_all(b"xq").unwrap();
    terminal.expect_restored();
    for signal in [Signal::INT, Signal::TERM] {
        let mut terminal = Terminal::open(&endpoint);
        terminal.read_until("q ends the view");
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        terminal.expect_restored();
    }
}

#[test]
fn a_server_that_ends_leaves_its_last_figures_in_the_view() {
    let (server, endpoint) = busy_server();
    let mut terminal = Terminal::open(&endpoint);
    terminal.read_until("q ends the view");
    drop(server);
    terminal.read_until("no new figures");
    terminal.master.write_all(b"q").unwrap();
    terminal.expect_restored();
}
