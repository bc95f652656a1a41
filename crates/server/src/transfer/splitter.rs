//! Items one after the other out of JSON text: an array, or objects with nothing, white space or commas between them.
//!
//! Only one item is in memory at a time. Its text is kept as it is.

use std::io::{BufRead, BufReader, Read};

/// Bytes of one item. The server's limit is far below.
pub const ITEM_BYTES_MAX: usize = 16 << 20;

/// An item's text, and the line at which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub line: u64,
    pub text: String,
}

pub struct Splitter<R> {
    reader: BufReader<R>,
    line: u64,
    in_array: bool,
}

impl<R: Read> Splitter<R> {
    pub fn new(reader: BufReader<R>) -> Splitter<R> {
        Splitter { reader, line: 1, in_array: false }
    }

    /// An error leaves no place to continue at.
    pub fn next(&mut self) -> Result<Option<Piece>, String> {
        loop {
            let Some(byte) = self.peek()? else {
                return match self.in_array {
                    true => Err(format!("line {}: the file ends within an array", self.line)),
                    false => Ok(None),
                };
            };
            match byte {
                b'{' => return self.object().map(Some),
                b'[' if !self.in_array => self.in_array = true,
                b']' if self.in_array => self.in_array = false,
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' | b',' => {}
                other => {
                    let found = char::from(other);
                    return Err(format!("line {}: an item begins with {{, not with '{found}'", self.line));
                }
            }
            self.reader.consume(1);
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, String> {
        let buffer = self.reader.fill_buf().map_err(|error| format!("the file cannot be read: {error}"))?;
        Ok(buffer.first().copied())
    }

    /// From `{` to the `}` of the same depth.
    fn object(&mut self) -> Result<Piece, String> {
        let (begun, mut text) = (self.line, Vec::new());
        let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
        loop {
            let buffer =
                self.reader.fill_buf().map_err(|error| format!("the file cannot be read: {error}"))?;
            if buffer.is_empty() {
                return Err(format!("line {begun}: the file ends within this item"));
            }
            let mut end = None;
            for (at, byte) in buffer.iter().enumerate() {
                match byte {
                    b'\n' => self.line += 1,
                    _ if is_escaped => {}
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                is_escaped = in_string && *byte == b'\\' && !is_escaped;
                if depth == 0 {
                    end = Some(at + 1);
                    break;
                }
            }
            let length = end.unwrap_or(buffer.len());
            text.extend_from_slice(&buffer[..length]);
            self.reader.consume(length);
            if text.len() > ITEM_BYTES_MAX {
                return Err(format!("line {begun}: an item has more than {} MiB", ITEM_BYTES_MAX >> 20));
            }
            if end.is_some() {
                let text = String::from_utf8(text)
                    .map_err(|_| format!("line {begun}: the item is no UTF-8 text"))?;
                return Ok(Piece { line: begun, text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a buffer of a few bytes, so that every item crosses its end.
    fn split(text: &str) -> Result<Vec<(u64, String)>, String> {
        let mut splitter = Splitter::new(BufReader::with_capacity(3, text.as_bytes()));
        let mut found = Vec::new();
        while let Some(Piece { line, text }) = splitter.next()? {
            found.push((line, text));
        }
        Ok(found)
    }

    #[test]
    fn arrays_and_objects_in_a_row_are_taken_apart() {
        let items = |texts: &[(u64, &str)]| {
            Ok(texts.iter().map(|(line, text)| (*line, (*text).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(
            split("[\n {\"a\":[1,{\"b\":\"}\\\"]\"}]},\n{}\n]"),
            items(&[(2, "{\"a\":[1,{\"b\":\"}\\\"]\"}]}"), (3, "{}")])
        );
        assert_eq!(
            split("{\"n\":1e400}{\"n\":\n2} {}"),
            items(&[(1, "{\"n\":1e400}"), (1, "{\"n\":\n2}"), (2, "{}")])
        );
        assert_eq!(split("{\"ä\":\"\\\\\"}\n"), items(&[(1, "{\"ä\":\"\\\\\"}")]));
        assert_eq!(split(" \n[]"), items(&[]));
    }

    #[test]
    fn broken_files_are_refused_with_their_line() {
        for (text, words) in [
            ("\n{\"a\":1", "line 2: the file ends within this item"),
            ("[{},\n", "line 2: the file ends within an array"),
            ("{}\nx", "line 2: an item begins with {, not with 'x'"),
            ("[[{}]]", "line 1: an item begins"),
            ("1", "line 1: an item begins"),
        ] {
            let message = split(text).expect_err(text);
            assert!(message.contains(words), "{message}");
        }
    }
}
