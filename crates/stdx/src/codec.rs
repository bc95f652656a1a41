//! Binary formats of the project: a reader that returns `None` where the bytes end too early, and a writer.
//!
//! Each format names the order of bytes of its numbers at every field, `le` or `be`. Bytes may come from a damaged disk or from a
//! client: no method panics, and memory is reserved only for elements whose bytes are there ([`Reader::list`]).

/// The unread rest of some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

/// Bytes that grow by one field after the other.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

/// A number of a fixed width.
pub trait Number: Sized {
    fn read_le(reader: &mut Reader<'_>) -> Option<Self>;
    fn read_be(reader: &mut Reader<'_>) -> Option<Self>;
    fn write_le(self, out: &mut Vec<u8>);
    fn write_be(self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            #[inline]
            fn read_le(reader: &mut Reader<'_>) -> Option<Self> {
                reader.array().map(Self::from_le_bytes)
            }

            #[inline]
            fn read_be(reader: &mut Reader<'_>) -> Option<Self> {
                reader.array().map(Self::from_be_bytes)
            }

            #[inline]
            fn write_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn write_be(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

numbers!(u16 u32 u64 u128 i8 i16 i32 i64 f32 f64);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that were not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A number, its lowest byte first.
    #[inline]
    pub fn le<N: Number>(&mut self) -> Option<N> {
        N::read_le(self)
    }

    /// A number, its highest byte first.
    #[inline]
    pub fn be<N: Number>(&mut self) -> Option<N> {
        N::read_be(self)
    }

    /// A number of one to ten bytes, as [`Writer::varint`] writes it; longer numbers than 64 bits are refused.
    pub fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            number |= bits << shift;
            if number >> shift != bits {
                return None;
            }
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The bytes before the next zero, which is read too.
    pub fn until_zero(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.byte()?;
        Some(text)
    }

    /// So many elements, none of which is shorter than `bytes_min`: a count that the rest cannot hold is refused before memory is
    /// reserved for it.
    pub fn list<T>(
        &mut self,
        count: usize,
        bytes_min: usize,
        mut element: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        debug_assert!(bytes_min > 0, "an element has bytes");
        if count.checked_mul(bytes_min)? > self.0.len() {
            return None;
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Some(elements)
    }

    /// The value, unless there are bytes behind it.
    pub fn end<T>(&self, value: T) -> Option<T> {
        self.is_empty().then_some(value)
    }
}

impl Writer {
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer(Vec::with_capacity(bytes))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn written(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) -> &mut Writer {
        self.0.push(byte);
        self
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    #[inline]
    pub fn le(&mut self, number: impl Number) -> &mut Writer {
        number.write_le(&mut self.0);
        self
    }

    #[inline]
    pub fn be(&mut self, number: impl Number) -> &mut Writer {
        number.write_be(&mut self.0);
        self
    }

    /// Seven bits a byte, lowest first; the top bit marks that more follow.
    pub fn varint(&mut self, mut number: u64) -> &mut Writer {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        let mut out = Writer::with_capacity(64);
        out.byte(7).le(0x0102_u16).be(0x0102_u16).le(-5_i32).be(u128::MAX - 1).le(1.5_f64).bytes(b"ab\0c");
        let bytes = out.into_bytes();
        assert_eq!(bytes[..5], [7, 2, 1, 1, 2]);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.byte(), Some(7));
        assert_eq!((reader.le::<u16>(), reader.be::<u16>()), (Some(0x0102), Some(0x0102)));
        assert_eq!((reader.le::<i32>(), reader.be::<u128>()), (Some(-5), Some(u128::MAX - 1)));
        assert_eq!((reader.le::<f64>(), reader.until_zero()), (Some(1.5), Some(&b"ab"[..])));
        assert_eq!((reader.end(()), reader.rest()), (None, &b"c"[..]));
        assert_eq!((reader.take(2), reader.until_zero(), reader.le::<u16>()), (None, None, None));
        assert_eq!((reader.byte(), reader.end(3)), (Some(b'c'), Some(3)));
    }

    #[test]
    fn numbers_of_several_bytes_have_one_limit() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Writer::default();
            out.varint(number);
            let bytes = out.into_bytes();
            assert_eq!(Reader::new(&bytes).varint(), Some(number));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), None, "{number} cut off");
        }
        let above = [[0xFF; 9].as_slice(), &[0x02]].concat();
        assert_eq!(Reader::new(&above).varint(), None, "65 bits");
        assert_eq!(Reader::new(&[0x80; 11]).varint(), None, "without end");
    }

    #[test]
    fn a_count_reserves_no_more_than_the_bytes_there_are() {
        let bytes = [1, 0, 2, 0, 3];
        assert_eq!(Reader::new(&bytes).list(2, 2, Reader::le::<u16>), Some(vec![1, 2]));
        assert_eq!(Reader::new(&bytes).list(3, 2, Reader::le::<u16>), None);
        assert_eq!(Reader::new(&bytes).list(usize::MAX, 2, Reader::le::<u16>), None);
        assert_eq!(Reader::new(&bytes).list(0, 2, Reader::le::<u16>), Some(Vec::new()));
    }

    /// Programs of random fields, written and read back; cut anywhere they end without a panic and without a wrong field.
    #[test]
    fn random_fields_come_back_and_cut_ones_are_missing() {
        let random = crate::Random::seeded(11);
        for _ in 0..500 {
            let fields: Vec<(u64, u64)> =
                (0..random.below(9)).map(|_| (random.below(4), random.below(u64::MAX))).collect();
            let mut out = Writer::default();
            for (kind, number) in &fields {
                match kind {
                    0 => out.le(*number),
                    1 => out.be(*number as u32),
                    2 => out.varint(*number >> (*number % 64)),
                    _ => out.byte(3).bytes(&number.to_le_bytes()[..3]),
                };
            }
            let bytes = out.into_bytes();
            let read = |reader: &mut Reader<'_>, (kind, number): (u64, u64)| match kind {
                0 => reader.le() == Some(number),
                1 => reader.be() == Some(number as u32),
                2 => reader.varint() == Some(number >> (number % 64)),
                _ => {
                    let length = reader.byte().map(usize::from);
                    length.and_then(|length| reader.take(length)) == Some(&number.to_le_bytes()[..3])
                }
            };
            let mut whole = Reader::new(&bytes);
            assert!(fields.iter().all(|field| read(&mut whole, *field)) && whole.is_empty());
            for end in 0..bytes.len() {
                let mut cut = Reader::new(&bytes[..end]);
                assert!(!fields.iter().all(|field| read(&mut cut, *field)), "cut at {end} of {fields:?}");
            }
        }
    }
}
