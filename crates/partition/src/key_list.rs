//! Keys to be read at once, in one buffer: one allocation instead of one each.

use bytes::Bytes;

#[derive(Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// A key made of parts.
    pub fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push(self.bytes.len());
    }

    fn start_of_last(&self) -> usize {
        self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before])
    }

    /// The key pushed last.
    pub fn last(&self) -> &[u8] {
        &self.bytes[self.start_of_last()..]
    }

    /// Takes it off again.
    pub fn pop(&mut self) {
        self.bytes.truncate(self.start_of_last());
        self.ends.pop();
    }

    pub fn finish(self) -> Vec<Bytes> {
        let bytes = Bytes::from(self.bytes);
        let mut start = 0;
        let key = |end| {
            let key = bytes.slice(start..end);
            start = end;
            key
        };
        self.ends.into_iter().map(key).collect()
    }
}
