//! Reading a message from its front, with every length checked.

use super::fault::Fault;

pub struct Bytes<'m>(pub &'m [u8]);

impl<'m> Bytes<'m> {
    pub fn take(&mut self, count: usize) -> Result<&'m [u8], Fault> {
        let Some((head, tail)) = self.0.split_at_checked(count) else {
            return Err(Fault::close("a message is shorter than what it holds"));
        };
        self.0 = tail;
        Ok(head)
    }

    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    pub fn i32(&mut self) -> Result<i32, Fault> {
        let bytes = self.take(4)?;
        Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text up to its final zero.
    pub fn cstring(&mut self) -> Result<&'m [u8], Fault> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return Err(Fault::close("a name in a message has no end"));
        };
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// The bytes of a document, by the length in its first four bytes. Their content is not checked.
    pub fn document(&mut self) -> Result<&'m [u8], Fault> {
        let length = Bytes(self.0).i32()?;
        match usize::try_from(length) {
            Ok(length) if length >= 5 => self.take(length),
            _ => Err(Fault::close("a document in a message has an impossible length")),
        }
    }
}
