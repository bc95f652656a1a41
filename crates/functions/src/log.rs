//! The log of a function: the latest lines of its runs.

use std::collections::VecDeque;

use shardlake_stdx::Timestamp;

const BYTES_MAX: usize = 256 << 10;
/// Bytes that a line counts besides its text.
const LINE_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionLogLine {
    pub time: Timestamp,
    pub version: u64,
    pub attempt: u32,
    /// The end of the batch, as an LSN of the source.
    pub upto: u64,
    pub text: String,
}

/// Lines of bounded size, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    lines: VecDeque<FunctionLogLine>,
    size_bytes: usize,
}

impl Ring {
    pub fn add(&mut self, line: FunctionLogLine) {
        self.size_bytes += line.text.len() + LINE_BYTES;
        self.lines.push_back(line);
        while self.size_bytes > BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.size_bytes -= oldest.text.len() + LINE_BYTES;
        }
    }

    pub fn lines(&self) -> Vec<FunctionLogLine> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_give_way() {
        let mut ring = Ring::default();
        for attempt in 0..1000 {
            let text = "x".repeat(1000);
            ring.add(FunctionLogLine { time: Timestamp(0), version: 1, attempt, upto: 1, text });
        }
        let lines = ring.lines();
        assert_eq!((lines.len(), lines.last().map(|line| line.attempt)), (BYTES_MAX / 1064, Some(999)));
        assert!(ring.size_bytes <= BYTES_MAX);
    }
}
