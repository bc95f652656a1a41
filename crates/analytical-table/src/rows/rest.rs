//! The text of `_rest`: one flat JSON object from JSON Pointer to value.

use shardlake_document::{RawValue, write_json_string, write_value};

use crate::schema::Exclusions;

use super::overflow::{Overflow, Path, Reason};

pub(super) struct Rest {
    /// The text of the current row, without the closing brace; empty if nothing is left over.
    text: Vec<u8>,
    /// The length of the text beyond which the current property of the root is kept as a whole.
    length_max: usize,
    is_over: bool,
    pointer: String,
    pub overflow: Overflow,
}

/// The text for one property of the root, against the bytes of its value. Pointers repeat the names of the
/// path for each value, so that a small item could have an endless text.
const LENGTH_FACTOR: usize = 8;
const LENGTH_FREE: usize = 1024;

impl Rest {
    pub fn new() -> Rest {
        Rest {
            text: Vec::new(),
            length_max: usize::MAX,
            is_over: false,
            pointer: String::new(),
            overflow: Overflow::default(),
        }
    }

    /// Begins a property of the root. Returns the length of the text, for [`Rest::end`].
    pub fn begin(&mut self, value_bytes: usize) -> usize {
        let start = self.text.len();
        self.length_max = start + LENGTH_FACTOR * value_bytes + LENGTH_FREE;
        start
    }

    /// Ends a property of the root. Returns whether its text was too long and has been removed.
    pub fn end(&mut self, start: usize) -> bool {
        self.length_max = usize::MAX;
        if self.is_over {
            self.text.truncate(start);
        }
        std::mem::take(&mut self.is_over)
    }

    #[cold]
    pub fn add(
        &mut self,
        path: &Path<'_>,
        value: RawValue<'_>,
        exclude: Option<&Exclusions>,
        reason: Reason,
    ) {
        if self.is_over {
            return;
        }
        self.overflow.note(reason, path);
        self.text.push(if self.text.is_empty() { b'{' } else { b',' });
        self.pointer.clear();
        path.write(&mut self.pointer, true);
        write_json_string(&self.pointer, &mut self.text);
        self.text.push(b':');
        match exclude {
            None => write_value(value, &mut self.text),
            Some(exclude) => {
                let written = exclude.without(value).write_json(&mut self.text);
                debug_assert!(written.is_ok(), "a copy of a stored value is JSON");
            }
        }
        // A property that is here as a whole has one text.
        self.is_over = path.parent.is_some() && self.text.len() > self.length_max;
    }

    /// The text of the row, which ends with this call.
    pub fn take(&mut self, use_text: impl FnOnce(Option<&str>)) {
        if self.text.is_empty() {
            return use_text(None);
        }
        self.text.push(b'}');
        let text = std::str::from_utf8(&self.text).expect("JSON text is made of strings and ASCII");
        use_text(Some(text));
        self.text.clear();
    }
}
