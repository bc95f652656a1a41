<<<<<<< HEAD
//! A terminal for programs that look whether there is one.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a terminal of 12 rows and 60 columns: that of the person, and that of the program.
pub fn open() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 12, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(master), slave)
}

/// Runs a command whose standard error is a terminal, and returns its output with the text that the terminal received.
pub fn run_with_errors_on_a_terminal(mut command: Command) -> (Output, String) {
    let (mut master, slave) = open();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::from(slave)).spawn().unwrap();
    // The command holds its end of the terminal as well.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        // Without a program at its other end, a terminal answers with an error.
        while let Ok(count) = master.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    (output, reader.join().unwrap())
=======
//! A pseudo terminal for commands that behave differently at one.

use std::fs::File;
use std::io::{Read, Write};
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
>>>>>>> d28890a4 (import: put back autoscale throughput)
}
