//! A pseudo terminal for commands that behave differently at one, and a server that falls silent.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::PATIENCE;

/// The editor asks for marks around pasted text before each prompt.
const BEGIN_OF_PROMPT: &str = "\u{1b}[?2004h";

/// A command, and the terminal that it runs at.
pub struct Terminal {
    child: Child,
    master: File,
    pieces: Receiver<Vec<u8>>,
    /// Everything that was shown and not yet expected.
    shown: String,
}

impl Terminal {
    pub fn start(command: &mut Command) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || File::options().read(true).write(true).open(&name).unwrap();
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        let (sender, pieces) = sync_channel(1_000);
        let mut reader = File::from(master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when the shell has closed its terminal.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, master: File::from(master), pieces, shown: String::new() }
    }

    /// Waits until the text is shown, and returns everything up to it.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.shown.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("{error}: {text:?} is not in {:?}", self.shown),
            }
        }
    }

    pub fn write(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for a new prompt: while a line is edited, the prompt is drawn again and again.
    #[track_caller]
    pub fn prompt(&mut self, prompt: &str) {
        self.expect(BEGIN_OF_PROMPT);
        self.expect(prompt);
    }

    #[track_caller]
    pub fn enter(&mut self, prompt: &str, input: &str) {
        self.prompt(prompt);
        self.write(input);
        self.write("\r");
    }

    /// Waits for the end of a command that succeeds, and returns everything that it has still shown.
    #[track_caller]
    pub fn end(mut self) -> String {
        assert!(self.child.wait().unwrap().success(), "{}", self.shown);
        while let Ok(piece) = self.pieces.recv_timeout(PATIENCE) {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
        std::mem::take(&mut self.shown)
    }

    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Answers requests that begin so, on one connection, and then takes the last one without an answer.
pub fn half_a_server(listener: &TcpListener, answers: &[(&str, &str)], last: &str) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for (begin, body) in answers {
        head_of(&mut stream, begin);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).unwrap();
    }
    head_of(&mut stream, last);
    stream
}

#[track_caller]
fn head_of(stream: &mut TcpStream, begin: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with(begin), "{head}");
}
