//! A check of the quotes of CSV over the raw text: the reader accepts a quote that is never closed, and text behind a closing quote.

/// Where the text is within a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Start,
    Plain,
    Quoted,
    /// Behind a quote that closes the cell, unless a second one follows.
    Closed,
}

/// Follows the text of a file in pieces of any size.
#[derive(Debug)]
pub struct Quotes {
    delimiter: u8,
    within: Within,
    line: u64,
    /// Line of the last quote at the beginning of a cell.
    begun: u64,
}

impl Quotes {
    pub fn new(delimiter: u8) -> Quotes {
        Quotes { delimiter, within: Within::Start, line: 1, begun: 1 }
    }

    /// Line of the quote that is not closed yet.
    pub fn open_since(&self) -> Option<u64> {
        (self.within == Within::Quoted).then_some(self.begun)
    }

    pub fn pass(&mut self, bytes: &[u8]) -> Result<(), String> {
        for byte in bytes {
            let ends_cell = *byte == self.delimiter || matches!(byte, b'\r' | b'\n');
            self.within = match (self.within, byte) {
                (Within::Start, b'"') => {
                    self.begun = self.line;
                    Within::Quoted
                }
                (Within::Quoted, b'"') => Within::Closed,
                (Within::Quoted, _) | (Within::Closed, b'"') => Within::Quoted,
                (Within::Closed, _) if !ends_cell => {
                    return Err(format!(
                        "line {}: text follows the closing quote of a cell that begins there: write a quote within a quoted cell twice",
                        self.begun
                    ));
                }
                _ if ends_cell => Within::Start,
                _ => Within::Plain,
            };
            self.line += u64::from(*byte == b'\n');
        }
        Ok(())
    }

    /// The end of the file.
    pub fn finish(&self) -> Result<(), String> {
        match self.open_since() {
            Some(line) => Err(format!("line {line}: a quote that begins a cell there is never closed")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, so that each state crosses the end of a piece.
    fn checked(text: &str) -> Result<(), String> {
        let mut quotes = Quotes::new(b',');
        text.as_bytes().chunks(1).try_for_each(|piece| quotes.pass(piece))?;
        quotes.finish()
    }

    #[test]
    fn quotes_are_closed_before_a_delimiter_or_the_end_of_a_line() {
        for good in ["a,b\n1,\"x,\n\"\"y\"\"\"\r\n\"\",2", "a\n5\" pipe\n", "\"a\"", "", "\"a\",\"b\"\r"] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("a,b\n1,\"x\n2,y\n", "line 2: a quote that begins a cell there is never closed"),
            ("a\n\n\"b\"c\n", "line 3: text follows the closing quote"),
            ("a\n\"b\n\nc\" ,d", "line 2: text follows the closing quote"),
            ("\"", "line 1: a quote"),
        ] {
            assert!(checked(bad).is_err_and(|message| message.contains(words)), "{bad}");
        }
    }
}
