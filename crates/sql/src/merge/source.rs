//! The rows of one source, in chunks, and the place up to which they are processed.

use crate::execute::Rows;

use super::state::Cursor;

#[derive(Default)]
pub(super) struct Source {
    /// The last chunk fed, and the row in it that comes next.
    chunk: Rows,
    at: usize,
    /// Where the chunk begins.
    base: Cursor,
    /// The position after the chunk; `None` at the end.
    next: Option<Vec<u8>>,
    pub exhausted: bool,
    /// Rows to skip because an earlier page returned them.
    to_pass: u64,
}

impl Source {
    /// A source that resumes where an earlier page stopped.
    pub fn at(cursor: Cursor) -> Source {
        Source {
            base: Cursor { position: cursor.position.clone(), done: 0 },
            next: cursor.position,
            to_pass: cursor.done,
            ..Source::default()
        }
    }

    /// Where its first chunk begins.
    pub fn position(&self) -> Option<&[u8]> {
        self.base.position.as_deref()
    }

    /// A chunk was processed elsewhere.
    pub fn skip_to(&mut self, next: Option<Vec<u8>>) {
        debug_assert!(!self.exhausted, "a source that is over has no more chunks");
        self.exhausted = next.is_none();
    }

    /// The next chunk, once the last one is processed. `next` is the position after it, if there is more.
    pub fn feed(&mut self, rows: &Rows, next: Option<Vec<u8>>) {
        assert!(self.row().is_none() && !self.exhausted, "chunks are fed when they are needed");
        self.base = self.chunk_end();
        self.exhausted = next.is_none();
        self.next = next;
        let passed = self.to_pass.min(rows.len() as u64);
        self.to_pass -= passed;
        self.at = passed as usize;
        assert!(self.at <= rows.len(), "a merge resumes within the rows of its source");
        self.chunk = rows.clone();
    }

    /// The next row.
    pub fn row(&self) -> Option<&[u8]> {
        self.chunk.get(self.at)
    }

    pub fn consume(&mut self) {
        debug_assert!(self.row().is_some(), "only a row that is there is consumed");
        self.at += 1;
    }

    pub fn needs_rows(&self) -> bool {
        self.row().is_none() && !self.exhausted
    }

    pub fn is_over(&self) -> bool {
        self.row().is_none() && self.exhausted
    }

    pub fn size_bytes(&self) -> usize {
        self.chunk.size_bytes()
    }

    /// The place of the next row.
    pub fn cursor(&self) -> Cursor {
        let mut cursor = match self.row() {
            Some(_) => Cursor { done: self.base.done + self.at as u64, ..self.base.clone() },
            None => self.chunk_end(),
        };
        cursor.done += self.to_pass;
        cursor
    }

    fn chunk_end(&self) -> Cursor {
        match &self.next {
            Some(next) if Cursor::has_room_for(next) => Cursor { position: Some(next.clone()), done: 0 },
            _ => Cursor { done: self.base.done + self.chunk.len() as u64, ..self.base.clone() },
        }
    }
}
