//! The output of a function, line by line, up to a maximum.

use crate::worker::model::Sink;

const LINES_MAX: usize = 256;
const CUT: &str = "[the log was cut here]";

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<String>,
    bytes: usize,
    bytes_max: usize,
    is_full: bool,
}

impl Lines {
    pub(super) fn up_to(bytes_max: usize) -> Lines {
        Lines { bytes_max, ..Lines::default() }
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

impl Sink for Lines {
    fn is_kept(&self) -> bool {
        !self.is_full
    }

    /// The last line that fits is followed by a note, or replaced by it.
    fn add(&mut self, line: &str) {
        if self.is_full {
            return;
        }
        let room = self.bytes_max.saturating_sub(self.bytes);
        let is_whole = line.len() <= room;
        self.is_full = !is_whole || self.lines.len() >= LINES_MAX;
        if !self.is_full {
            self.bytes += line.len();
            self.lines.push(line.to_owned());
            return;
        }
        if self.lines.len() < LINES_MAX && room > 0 {
            self.lines.push(line[..line.floor_char_boundary(room)].to_owned());
        }
        self.lines.truncate(LINES_MAX - 1);
        self.lines.push(CUT.to_owned());
        assert!(self.lines.len() <= LINES_MAX, "the output is bounded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_past_the_maximum_is_cut_with_a_note() {
        let mut lines = Lines::up_to(10);
        for line in ["1234", "5678", "äää", "x"] {
            lines.add(line);
        }
        assert_eq!(lines.take(), ["1234", "5678", "ä", CUT]);
        let mut lines = Lines::up_to(1 << 20);
        (0..300).for_each(|number| lines.add(&number.to_string()));
        let lines = lines.take();
        assert_eq!((lines.len(), lines[254].as_str(), lines[255].as_str()), (256, "254", CUT));
        let mut lines = Lines::up_to(1 << 20);
        (0..256).for_each(|number| lines.add(&number.to_string()));
        assert_eq!(lines.take().last().map(String::as_str), Some("255"), "as many as fit");
    }
}
