//! The terminal of a live view: keys without a line end, the alternate screen, and its state from before at the end.
//!
//! The state is restored when a [`Screen`] is dropped, so also after an error and a panic. SIGINT, SIGTERM and SIGHUP end the view
//! instead of the process. The key that suspends a process is switched off: a suspended view would leave the terminal as it is.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::table::Line;
use crate::operate::Paint;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const ROWS_DEFAULT: usize = 24;
const COLUMNS_DEFAULT: usize = 80;
/// Control-C where the terminal sends no signal for it.
const CONTROL_C: u8 = 3;

pub struct Screen {
    /// Mode of standard input from before; `None` where it is no terminal.
    before: Option<Termios>,
    keys: mpsc::Receiver<u8>,
    signals: [Signal; 3],
}

impl Screen {
    pub fn open() -> Result<Screen, String> {
        let unusable = |error: io::Error| format!("the terminal cannot be used: {error}");
        let listen = |kind| signal(kind).map_err(unusable);
        // From here on no signal ends the process with the terminal changed.
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        let before = tcgetattr(io::stdin()).ok();
        let (sender, keys) = mpsc::channel(16);
        let screen = Screen { before, keys, signals };
        if let Some(before) = &screen.before {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(|error| unusable(error.into()))?;
            // The thread waits in a read until the process ends.
            let _reader = thread::spawn(move || read_keys(&sender));
        }
        write(ENTER).map_err(unusable)?;
        Ok(screen)
    }

    /// Draws the lines that fit.
    pub fn draw(&mut self, lines: &[Line], paint: Paint) -> Result<(), String> {
        let (rows, columns) = size(io::stdout());
        let mut text = HOME.to_owned();
        let shown = lines.iter().take(rows.saturating_sub(1));
        for line in shown {
            text += &line.cut(columns).painted(paint);
            text += CLEAR_REST_OF_LINE;
            text += "\r\n";
        }
        text += "q ends the view";
        text += CLEAR_REST_OF_LINE;
        text += CLEAR_BELOW;
        write(&text).map_err(|error| format!("the terminal cannot be written: {error}"))
    }

    /// Resolves when a key or a signal ends the view. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<(), String> {
        let [interrupt, terminate, hangup] = &mut self.signals;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                _ = hangup.recv() => return Ok(()),
                key = self.keys.recv(), if self.before.is_some() => match key {
                    Some(b'q' | b'Q' | CONTROL_C) => return Ok(()),
                    Some(_) => {}
                    // The terminal is closed.
                    None => return Ok(()),
                },
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is closed has no state to restore.
        let _written = write(LEAVE);
        if let Some(before) = &self.before {
            let _restored = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn read_keys(sender: &mpsc::Sender<u8>) {
    let mut key = [0];
    while let Ok(1) = io::stdin().read(&mut key) {
        if sender.blocking_send(key[0]).is_err() {
            return;
        }
    }
}

/// Rows and columns.
fn size(terminal: impl AsFd) -> (usize, usize) {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (ROWS_DEFAULT, COLUMNS_DEFAULT),
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
