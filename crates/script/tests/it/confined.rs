//! The confinement of a worker: as the kernel reports it, and tried from inside.

use std::process::{Command, Output};

use crate::support::{Documents, body, children, processes, run, status_of};
use serde_json::json;
use shardlake_script::Layer;

/// Attempts of a compromised script, and whether the attempt ends the worker.
const ATTEMPTS: &[(&str, bool)] = &[
    ("read a file", false),
    ("list a directory", false),
    ("look for a file", false),
    ("create a file", false),
    ("read another's memory", false),
    ("raise another's limits", false),
    ("connect", true),
    ("send datagrams", true),
    ("connect to a socket", true),
    ("listen", true),
    ("make a pair of sockets", true),
    ("start a program", true),
    ("become a program", true),
    ("start a thread", true),
    ("kill another process", true),
];

fn attempt(how: &str, what: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_shardlake-script-worker");
    Command::new(program).args([how, what]).output().expect("starts")
}

#[test]
fn a_confined_worker_reaches_nothing() {
    use std::os::unix::process::ExitStatusExt;
    for (what, is_fatal) in ATTEMPTS {
        let free = attempt("--freely", what);
        assert_eq!(String::from_utf8_lossy(&free.stdout).trim(), "done", "{what}: proves nothing");
        let confined = attempt("--try", what);
        let told = String::from_utf8_lossy(&confined.stdout);
        if *is_fatal {
            let signal = confined.status.signal();
            assert_eq!(signal, Some(rustix::process::Signal::SYS.as_raw()), "{what}: {told}");
        } else {
            assert!(told.starts_with("refused: Operation not permitted"), "{what}: {told}");
        }
    }
    assert_eq!(attempt("--try", "nothing").stdout, b"done\n", "what is tried is what fails");
}

#[test]
fn the_kernel_says_that_a_live_worker_is_confined() {
    let scripts = processes(1);
    assert_eq!(scripts.confined(), None, "nobody knows before the first worker");
    run(&scripts, &mut Documents::default(), "function () {}", "[]").expect("runs");
    let confined = scripts.confined().expect("it said so");
    assert!(Layer::ALL.iter().all(|layer| confined.has(*layer)), "{confined:?}");
    let status = status_of(children().trim());
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
    };
    assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(set).trim_start_matches('0'), "", "{set}");
    }
    if rustix::process::geteuid().is_root() {
        assert_eq!(field("CapBnd").trim_start_matches('0'), "");
    }
}

/// The C library would look for the zone in a file; memory is allocated and returned; errors are thrown.
#[test]
fn what_scripts_need_of_the_kernel_they_have() {
    let source = "function () {
        const now = new Date(), zone = now.getTimezoneOffset(), large = [];
        for (let i = 0; i < 200; i++) large.push(new Uint8Array(1 << 17));
        let thrown;
        try { null.x; } catch (error) { thrown = error.name; }
        __.response.setBody([zone, typeof now.toLocaleString(), typeof Math.random(), large.length, thrown]);
    }";
    let scripts = processes(1);
    for _ in 0..3 {
        let done = run(&scripts, &mut Documents::default(), source, "[]").expect("runs");
        assert_eq!(body(&done), json!([0, "string", "number", 200, "TypeError"]));
    }
}
