//! Bytes of stored states: numbers in seven bits a byte, the lowest first; texts behind their lengths.

#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Debug)]
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader(bytes)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let part = u64::from(byte & 0x7F);
            if place == 9 && part > 1 {
                return None;
            }
            number |= part << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_survive() {
        let numbers = [0, 1, 127, 128, 1 << 40, u64::MAX];
        let mut out = Writer::default();
        numbers.iter().for_each(|number| out.number(*number));
        out.bytes(b"text");
        let bytes = out.finish();
        let mut reader = Reader::new(&bytes);
        numbers.iter().for_each(|number| assert_eq!(reader.number(), Some(*number)));
        assert_eq!(reader.bytes(), Some(&b"text"[..]));
        assert!(reader.is_over());
        assert_eq!(reader.number(), None);
        assert_eq!(Reader::new(&[0xFF; 10]).number(), None, "more than 64 bits");
        assert_eq!(Reader::new(&[5, 1]).bytes(), None);
    }
}
