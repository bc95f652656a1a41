//! The text of `_rest`: one flat JSON object from JSON Pointer to value.

use shardlake_document::{RawValue, write_json_string, write_value};

use crate::schema::Exclusions;

use super::overflow::{Overflow, Path, Reason};

#[derive(Default)]
pub(super) struct Rest {
    /// The text of the current row, without the closing brace; empty if nothing is left over.
    text: Vec<u8>,
    pointer: String,
    pub overflow: Overflow,
}

impl Rest {
    #[cold]
    pub fn add(
        &mut self,
        path: &Path<'_>,
        value: RawValue<'_>,
        exclude: Option<&Exclusions>,
        reason: Reason,
    ) {
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
