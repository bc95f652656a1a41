//! A worker as a program of its own, for the tests and measurements of this crate; the server is its own worker.
//!
//! With `--try ATTEMPT` it confines itself like a worker and tries an action of a compromised script; with
//! `--freely ATTEMPT` it tries the same unconfined. It prints the outcome.
#![allow(clippy::print_stdout)] // the test reads the output

use std::fs::{self, File};
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Resource, Signal, getppid, getrlimit, kill_process, prlimit};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => shardlake_script::worker_main(),
        [how @ ("--try" | "--freely"), what] => {
            // The parent is the test.
            let Some(father) = getppid() else { return ExitCode::FAILURE };
            if how == "--try" {
                shardlake_script::confine();
            }
            match attempt(what, father) {
                Ok(()) => println!("done"),
                Err(error) => println!("refused: {error}"),
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}

fn attempt(what: &str, father: Pid) -> io::Result<()> {
    let file = std::env::temp_dir().join(format!("shardlake-attempt-{}", std::process::id()));
    match what {
        "nothing" => Ok(()),
        "read a file" => File::open("/proc/self/status").map(drop),
        "list a directory" => fs::read_dir("/").map(drop),
        "look for a file" => fs::metadata("/").map(drop),
        "create a file" => File::create(&file).and_then(|_| fs::remove_file(&file)),
        "read another's memory" => File::open("/proc/self/mem").map(drop),
        "connect" => match TcpStream::connect("127.0.0.1:1") {
            // The connection was attempted; the port has no listener.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other.map(drop),
        },
        "send datagrams" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "connect to a socket" => match UnixStream::connect("/nothing") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        },
        "listen" => UnixListener::bind(&file).and_then(|_| fs::remove_file(&file)),
        "make a pair of sockets" => UnixStream::pair().map(drop),
        "start a program" => Command::new("/bin/true").status().map(drop),
        // The process is replaced if it succeeds.
        "become a program" => Err(Command::new("/bin/echo").arg("done").exec()),
        "start a thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
        // The other process ignores this signal.
        "kill another process" => Ok(kill_process(father, Signal::CHILD)?),
        // Sets the limits to their current values.
        "raise another's limits" => {
            Ok(prlimit(Some(father), Resource::Core, getrlimit(Resource::Core)).map(drop)?)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
