//! Script workers as processes of the server: the kernel confines them, killing one does not fail its script, and loops of
//! one container hold up no other.

use std::fs;
use std::thread;

use serde_json::json;
use shardlake_testkit::{Client, Response, ServerProcess, container_path, eventually};

use crate::support::in_memory;

const ENDLESS: &str = "function () { for (;;); }";

/// A server with containers `a` and `b`, each with procedures of these names and texts.
fn serving(procedures: &[(&str, &str)]) -> ServerProcess {
    let server = in_memory().start();
    let client = server.client();
    drop(client.create_database("db").expect_status(201));
    for container in ["a", "b"] {
        drop(client.create_container("db", container, "/pk").expect_status(201));
        let path = format!("{}/sprocs", container_path("db", container));
        for (id, body) in procedures {
            drop(client.post_json(&path, &[], &json!({"id": id, "body": body})).expect_status(201));
        }
    }
    server
}

fn execute(client: &Client, container: &str, procedure: &str) -> Response {
    let path = format!("{}/sprocs/{procedure}", container_path("db", container));
    client.post_json(&path, &[("x-ms-documentdb-partitionkey", r#"["k"]"#)], &json!([]))
}

/// Processes that any thread of the server started.
fn workers(server: &ServerProcess) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<String> = tasks.filter_map(|task| Some(children(task.ok()?))).collect();
    all.iter().flat_map(|children| children.split_whitespace()).map(str::to_owned).collect()
}

/// A worker that is none of `others`, once it has reported itself as ready.
fn worker_beside(server: &ServerProcess, others: &[String]) -> String {
    let mut found = None;
    eventually("another worker runs", || {
        let is_confined = |worker: &String| {
            let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
            status.contains("Seccomp:\t2")
        };
        found = workers(server).into_iter().find(|worker| !others.contains(worker) && is_confined(worker));
        found.is_some()
    });
    found.unwrap()
}

fn kill(process: &str) {
    let process = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_script_whose_worker_is_killed_is_run_once_more_and_then_told_to_come_again() {
    let server = serving(&[("endless", ENDLESS)]);
    server.expects_log("a script worker was killed from outside");
    // The worker that checked the texts is kept for the first run.
    let idle = workers(&server);
    let before = ticks(&idle[0]);
    thread::scope(|scope| {
        let run = scope.spawn(|| execute(&server.client(), "a", "endless"));
        eventually("the worker computes", || ticks(&idle[0]) > before + 5);
        kill(&idle[0]);
        // The same request runs in another worker.
        let second = worker_beside(&server, &idle);
        eventually("the worker computes", || ticks(&second) > 20);
        kill(&second);
        let answer = run.join().unwrap().expect_status(503);
        assert!(answer.header("x-ms-retry-after-ms").is_some(), "{}", answer.text());
        assert!(answer.text().contains("killed from outside"), "{}", answer.text());
    });
}

/// Processor time that a worker has used, in hundredths of a second.
fn ticks(worker: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
    let after_name = status.rsplit(')').next().unwrap_or_default().to_owned();
    after_name.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Writes of the first run are discarded with its worker: the second run finds none of them, and is one commit.
#[test]
fn what_a_killed_run_wrote_is_not_there_when_it_is_run_again() {
    let body = "function () {
        const c = getContext().getCollection();
        c.createDocument(c.getSelfLink(), {id: 'once', pk: 'k'}, error => {
            if (error) throw error;
            for (let i = 0; i < 3e6; i++);
        });
    }";
    let server = serving(&[("writes", body)]);
    server.expects_log("a script worker was killed from outside");
    let idle = workers(&server);
    let before = ticks(&idle[0]);
    thread::scope(|scope| {
        let run = scope.spawn(|| execute(&server.client(), "a", "writes"));
        eventually("the worker computes", || ticks(&idle[0]) > before + 1 || run.is_finished());
        kill(&idle[0]);
        drop(run.join().unwrap().expect_status(200));
    });
    let path = container_path("db", "a") + "/docs";
    let found = server.client().get(&path, &[]).expect_status(200).json();
    assert_eq!(found["_count"], 1, "{found}");
    let item = server.client().read_item("db", "a", &json!(["k"]), "once").expect_status(200);
    assert_eq!(item.header("lsn"), Some("1"), "one commit");
}

#[test]
fn workers_of_the_server_are_confined_and_metrics_say_so() {
    let server = serving(&[("small", "function () { }")]);
    drop(execute(&server.client(), "a", "small").expect_status(200));
    let worker = worker_beside(&server, &[]);
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    let metrics = server.client().get("/metrics", &[]).expect_status(200).text();
    for layer in ["no-new-privileges", "capabilities", "not-dumpable", "seccomp"] {
        let line = format!("shardlake_script_confinement{{layer=\"{layer}\"}} 1");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[test]
fn loops_of_one_container_do_not_hold_up_another() {
    let mut server = serving(&[("endless", ENDLESS), ("small", "function () { }")]);
    // More than there are workers.
    let cores = thread::available_parallelism().map_or(2, usize::from).max(2);
    let path = format!("{}/sprocs/endless", container_path("db", "a"));
    let loops: Vec<_> = (0..cores + 6)
        .map(|number| {
            let (client, path) = (server.client(), path.clone());
            thread::spawn(move || {
                let key = format!(r#"["k{number}"]"#);
                // Ends with the server.
                let _ = client.try_request("POST", &path, &[("x-ms-documentdb-partitionkey", &key)], b"[]");
            })
        })
        .collect();
    let computing = || workers(&server).iter().filter(|worker| ticks(worker) > 10).count();
    eventually("loops run on every worker that they may have", || computing() >= cores);
    drop(execute(&server.client(), "b", "small").expect_status(200));
    assert!(!loops.iter().any(|run| run.is_finished()), "it waited for none of them");
    server.kill();
    loops.into_iter().for_each(|run| run.join().unwrap());
}
