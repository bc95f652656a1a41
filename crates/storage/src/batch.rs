//! The content of one commit, and its place in the order.

use bytes::Bytes;

/// Position of a commit in the order of submissions since the shard was opened: 1, 2, 3, …
pub type Seq = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Put { key: Bytes, value: Bytes },
    Delete { key: Bytes },
}

impl Op {
    pub fn key(&self) -> &Bytes {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }

    /// Key and value together.
    pub fn size_bytes(&self) -> usize {
        match self {
            Op::Put { key, value } => key.len() + value.len(),
            Op::Delete { key } => key.len(),
        }
    }
}

/// Writes that take effect together. Of two writes of one key, the later one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    ops: Vec<Op>,
    size_bytes: usize,
    is_patient: bool,
}

impl Batch {
    pub fn new() -> Self {
        Batch::default()
    }

    /// Marks a batch that no client waits for: the committer may delay it briefly, to write and
    /// sync it with the next commit that a client waits for.
    pub fn be_patient(&mut self) {
        self.is_patient = true;
    }

    pub fn is_patient(&self) -> bool {
        self.is_patient
    }

    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        let (key, value) = (key.into(), value.into());
        self.size_bytes += key.len() + value.len();
        self.ops.push(Op::Put { key, value });
    }

    pub fn delete(&mut self, key: impl Into<Bytes>) {
        let key = key.into();
        self.size_bytes += key.len();
        self.ops.push(Op::Delete { key });
    }

    /// Adds operations behind the existing ones; `size_bytes` are their keys and values together.
    pub fn append(&mut self, mut ops: Vec<Op>, size_bytes: usize) {
        debug_assert_eq!(size_bytes, ops.iter().map(Op::size_bytes).sum::<usize>(), "sizes add up");
        self.size_bytes += size_bytes;
        self.ops.append(&mut ops);
    }

    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Keys and values together.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Op> {
        self.ops.iter()
    }

    pub fn into_ops(self) -> Vec<Op> {
        self.ops
    }
}
