//! The text of an answer in pieces, each of which is freed as soon as it was sent.
//!
//! A report is written straight into the pieces. Nothing holds its text in one piece, which would
//! grow by doubling, and a client that has received half of an answer leaves half of it in memory.

use std::io::{self, Write};

use serde::Serialize;

/// Bytes that are handed to the connection at once.
const PIECE_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub(crate) struct Pieces {
    done: Vec<Vec<u8>>,
    open: Vec<u8>,
}

impl Pieces {
    /// Keeps all of `text` in one piece, so that short texts are not torn apart.
    pub fn push(&mut self, text: &[u8]) {
        self.open.extend_from_slice(text);
        if self.open.len() >= PIECE_BYTES {
            let next = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
            self.done.push(std::mem::replace(&mut self.open, next));
        }
    }

    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.done.push(self.open);
        self.done
    }
}

impl Write for Pieces {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let taken = text.len().min(PIECE_BYTES);
        self.push(&text[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn written(value: &impl Serialize) -> Vec<Vec<u8>> {
    let mut pieces = Pieces::default();
    serde_json::to_writer(&mut pieces, value).expect("reports have a JSON form");
    pieces.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_in_pieces_is_the_same_text() {
        let report: Vec<String> = (0..20).map(|n| "x".repeat(n * 9_000)).collect();
        let pieces = written(&report);
        assert_eq!(pieces.concat(), serde_json::to_vec(&report).expect("JSON"));
        assert!(pieces.len() > 30, "{} pieces", pieces.len());
        assert!(
            pieces.iter().all(|piece| piece.len() <= 2 * PIECE_BYTES),
            "no piece holds a long text whole"
        );
        assert_eq!(written(&0), [b"0".to_vec()]);
    }
}
