//! PostgreSQL as a yardstick: a JSONB table with a (pk, id) key, fsync on, driven by `pgbench -M prepared`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::cpu::Cpu;
use crate::load::Measured;
use crate::workload::document;

/// As much memory as our caches have; journals and checkpoints that do not disturb a measurement of seconds.
pub const SETTINGS: [&str; 9] = [
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    "max_connections=100",
    "wal_buffers=16MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=15min",
    "random_page_cost=1.1",
    "jit=off",
];

pub struct Postgres {
    server: Child,
    bin: PathBuf,
    scratch: tempfile::TempDir,
    port: u16,
}

impl Postgres {
    /// `None`, with a message, where PostgreSQL is not installed.
    pub fn start(items: u64) -> Outcome<Option<Postgres>> {
        let Some(bin) = programs() else {
            eprintln!("PostgreSQL 15 is not installed: skipped. On Debian: apt-get install postgresql-15");
            return Ok(None);
        };
        let scratch = tempfile::TempDir::with_prefix("shardlake-bench-pg-")?;
        let data = scratch.path().join("data");
        // The server refuses to run as root.
        let me = command_as_user(Path::new("true")).1;
        if me {
            run(Command::new("chown").args(["nobody"]).arg(scratch.path()))?;
        }
        run(command_as_user(&bin.join("initdb")).0.args(["-A", "trust", "-U", "bench", "-D"]).arg(&data))?;
        let port = free_port()?;
        let server = command_as_user(&bin.join("postgres"))
            .0
            .args(["-D"])
            .arg(&data)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k", ""])
            .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let postgres = Postgres { server, bin, scratch, port };
        postgres.wait_until_ready()?;
        postgres.load(items)?;
        Ok(Some(postgres))
    }

    fn psql(&self, sql: &str) -> Outcome {
        let client = if self.bin.join("psql").exists() { self.bin.join("psql") } else { "psql".into() };
        let mut psql = Command::new(client);
        psql.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "bench",
            "-d",
            "postgres",
            "-q",
            "-c",
            sql,
        ]);
        run(&mut psql)
    }

    fn wait_until_ready(&self) -> Outcome {
        for _ in 0..100 {
            if self.psql("select 1").is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("PostgreSQL did not become ready in 10 s".into())
    }

    /// Fills the empty table with documents of a template, whose `ID`, `PK` and `SLOT` are replaced.
    pub fn fill(&self, template: &str, items: u64) -> Outcome {
        let template = template.replace('\'', "''");
        self.psql(&format!(
            "insert into items select 'key-' || n / 100, 'item-' || n, replace(replace(replace('{template}', 'ID', 'item-' || n), 'PK', 'key-' || n / 100), 'SLOT', (n % 100)::text)::jsonb from generate_series(0, {}) n",
            items - 1
        ))?;
        self.psql("vacuum analyze items")?;
        self.psql("checkpoint")
    }

    fn load(&self, items: u64) -> Outcome {
        self.psql("create table items (pk text, id text, doc jsonb not null, primary key (pk, id))")?;
        if items == 0 {
            return Ok(());
        }
        let document = document("ID", "PK").replace('\'', "''");
        self.psql(&format!(
            "insert into items select 'key-' || n / 100, 'item-' || n, replace(replace('{document}', 'ID', 'item-' || n), 'PK', 'key-' || n / 100)::jsonb from generate_series(0, {}) n",
            items - 1
        ))?;
        // The counterpart of our default index: every path of every document can be searched.
        self.psql("create index on items using gin (doc)")?;
        self.psql("vacuum analyze items")?;
        self.psql("checkpoint")
    }

    pub fn reads(&self, connections: usize, seconds: u64, items: u64) -> Outcome<Measured> {
        let script = format!(
            "\\set n random(0, {})\n\\set k :n / 100\nselect doc from items where pk = 'key-' || :k and id = 'item-' || :n;\n",
            items - 1
        );
        self.pgbench(&script, connections, seconds)
    }

    pub fn creates(&self, connections: usize, seconds: u64) -> Outcome<Measured> {
        // pgbench parses a colon before a word or number as a variable: a space separates them.
        let document = document("ID", "PK").replace('\'', "''").replace("\":", "\": ");
        let script = format!(
            "\\set n random(1, 9000000000000000)\n\\set k random(0, 1000)\ninsert into items values ('key-' || :k, 'new-' || :n, '{document}'::jsonb);\n"
        );
        self.pgbench(&script, connections, seconds)
    }

    /// Filters and groups a table of small documents on one connection, as `mongo.rs` does with a collection.
    pub fn group(&self, documents: u64, groups: u64, seconds: u64) -> Outcome<Measured> {
        self.psql("create table grouped (id bigint primary key, doc jsonb not null)")?;
        self.psql(&format!(
            "insert into grouped select n, jsonb_build_object('g', n % {groups}, 'n', n, 'text', repeat('x', 100)) from generate_series(0, {}) n",
            documents.saturating_sub(1)
        ))?;
        self.psql("vacuum analyze grouped")?;
        let script = "select doc->'g', sum((doc->>'n')::bigint), count(*) from grouped where (doc->>'n')::bigint >= 10 group by doc->'g';\n";
        self.pgbench(script, 1, seconds)
    }

    /// Updates of one property of random documents.
    pub fn patches(&self, connections: usize, seconds: u64, items: u64) -> Outcome<Measured> {
        let script = format!(
            "\\set n random(0, {})\n\\set k :n / 100\n\\set q random(0, 1000000000)\nupdate items set doc = jsonb_set(doc, '{{quantity}}', to_jsonb(:q::int)) where pk = 'key-' || :k and id = 'item-' || :n;\n",
            items - 1
        );
        self.pgbench(&script, connections, seconds)
    }

    /// Runs a script on `connections` connections. On a busy machine they may take longer to open
    /// than the run was to take.
    pub fn pgbench(&self, script: &str, connections: usize, seconds: u64) -> Outcome<Measured> {
        let file = self.scratch.path().join("script.sql");
        fs::write(&file, script)?;
        for seconds in [seconds, 2 * seconds, 4 * seconds] {
            if let Some(measured) = self.pgbench_file(&file, connections, seconds)? {
                return Ok(measured);
            }
        }
        Err("pgbench got nothing done".into())
    }

    /// Nothing where no transaction was processed.
    fn pgbench_file(&self, file: &Path, connections: usize, seconds: u64) -> Outcome<Option<Measured>> {
        let log = tempfile::TempDir::new()?;
        let client =
            if self.bin.join("pgbench").exists() { self.bin.join("pgbench") } else { "pgbench".into() };
        let cpu = Cpu::of(self.server.id());
        let output = Command::new(client)
            .current_dir(log.path())
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "bench"])
            .args(["-M", "prepared", "-n", "-l", "-c", &connections.to_string(), "-j", "1"])
            .args(["-T", &seconds.to_string(), "-f"])
            .arg(file)
            .arg("postgres")
            .output()?;
        let cpu_seconds = cpu.seconds();
        let text = String::from_utf8_lossy(&output.stdout);
        let number = |name: &str| -> Option<f64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next()?.parse().ok())
        };
        let done = number("number of transactions actually processed: ")
            .ok_or_else(|| format!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr)))?;
        let Some(per_second) = number("tps = ") else { return Ok(None) };
        let (p50_us, p99_us) = latencies(log.path())?;
        Ok(Some(Measured { per_second, p50_us, p99_us, cpu_us: cpu_seconds * 1e6 / done.max(1.0) }))
    }
}

/// Where the server's programs are.
fn programs() -> Option<PathBuf> {
    let candidates = ["/usr/lib/postgresql/15/bin", "/usr/local/bin", "/usr/bin"];
    let has_server =
        |bin: &&&str| ["postgres", "initdb"].iter().all(|name| Path::new(bin).join(name).exists());
    candidates.iter().find(has_server).map(PathBuf::from)
}

/// Version and settings of the yardstick, in a sentence.
pub fn description() -> String {
    let Some(bin) = programs() else { return "PostgreSQL was not installed.".into() };
    let output = Command::new(bin.join("postgres")).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "PostgreSQL: {}, a JSONB table with a (pk, id) key and, for reads, creates and patches, a GIN index over the document; `pgbench -M prepared -j 1`; {}.",
        version.unwrap_or_else(|_| "of unknown version".into()),
        SETTINGS.join(", ")
    )
}

/// Median and 99th percentile of the per-transaction logs.
fn latencies(directory: &Path) -> Outcome<(f64, f64)> {
    let mut all: Vec<f64> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let text = fs::read_to_string(entry?.path())?;
        all.extend(text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
    }
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all.get(((all.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0);
    Ok((at(0.50), at(0.99)))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.scratch.path().join("data");
        let mut stop = command_as_user(&self.bin.join("pg_ctl")).0;
        let _ = stop
            .args(["stop", "-m", "immediate", "-D"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The command, as an unprivileged user where we are root; and whether that is so.
fn command_as_user(program: &Path) -> (Command, bool) {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0);
    if !is_root {
        return (Command::new(program), false);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program).current_dir("/");
    (command, true)
}

fn run(command: &mut Command) -> Outcome {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?} does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
