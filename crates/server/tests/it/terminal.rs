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
}
