//! Running other programs: print the command, pass on or capture its output, turn a failure into a sentence.

use crate::Outcome;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Runs to the end with our own output. A status other than zero is an error.
pub fn run_to_end(command: &mut Command) -> Outcome {
    println!("$ {}", describe(command));
    let status = command.stdin(Stdio::null()).status().map_err(|error| unable(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", describe(command)).into()) }
}

/// Runs to the end, shows the output as it is written and returns it; the flag is true if the status was zero.
pub fn run_and_listen(command: &mut Command) -> Outcome<(String, bool)> {
    println!("$ {}", describe(command));
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| unable(command, &error))?;
    let stdout = child.stdout.take().expect("standard output was piped above");
    let stderr = child.stderr.take().expect("standard error was piped above");
    let errors = std::thread::spawn(move || repeat(stderr));
    let mut heard = repeat(stdout);
    heard.push_str(&errors.join().unwrap_or_default());
    Ok((heard, child.wait()?.success()))
}

fn repeat(stream: impl Read) -> String {
    let mut heard = String::new();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        heard.push_str(&text);
        line.clear();
    }
    heard
}

/// Whether the program starts and succeeds; its output is discarded.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

pub fn unable(command: &Command, error: &std::io::Error) -> String {
    format!("{} does not start: {error}", describe(command))
}
