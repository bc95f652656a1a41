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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_of_parts_and_may_be_taken_off() {
        let mut keys = KeyList::default();
        keys.push(&[b"a", b"bc"]);
        keys.push(&[]);
        keys.push(&[b"d"]);
        assert_eq!(keys.last(), b"d");
        keys.pop();
        assert_eq!(keys.last(), b"");
        keys.push(&[b"e", b"", b"f"]);
        assert_eq!(keys.finish(), [&b"abc"[..], b"", b"ef"]);
        let mut one = KeyList::default();
        one.push(&[b"x"]);
        one.pop();
        assert_eq!(one.finish(), Vec::<Bytes>::new());
    }
}
