//! Tokens: an id of two bytes, a type of one byte, a value. Integers are little-endian.

use crate::bad_frame::BadFrame;

/// Tokens of one frame. Clients send about twenty.
const TOKENS_MAX: usize = 300;

/// A value, by its type. Lengths of texts and bytes have one, two or four bytes, by the type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'f> {
    Byte(u8),
    UShort(u16),
    ULong(u32),
    Long(i32),
    ULongLong(u64),
    LongLong(i64),
    /// The first three groups little-endian.
    Guid([u8; 16]),
    SmallString(&'f [u8]),
    String(&'f [u8]),
    ULongString(&'f [u8]),
    SmallBytes(&'f [u8]),
    Bytes(&'f [u8]),
    ULongBytes(&'f [u8]),
    Float(f32),
    Double(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token<'f> {
    pub id: u16,
    pub value: Value<'f>,
}

/// The tokens of a frame, each id once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokens<'f>(Vec<Token<'f>>);

impl<'f> Value<'f> {
    /// A text or bytes of any of the types.
    pub fn as_bytes(&self) -> Option<&'f [u8]> {
        match self {
            Value::SmallString(bytes) | Value::String(bytes) | Value::ULongString(bytes) => Some(bytes),
            Value::SmallBytes(bytes) | Value::Bytes(bytes) | Value::ULongBytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A whole number of any width.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Value::Byte(number) => Some(number.into()),
            Value::UShort(number) => Some(number.into()),
            Value::ULong(number) => Some(number.into()),
            Value::Long(number) => Some(number.into()),
            Value::ULongLong(number) => i64::try_from(number).ok(),
            Value::LongLong(number) => Some(number),
            _ => None,
        }
    }
}

impl<'f> Tokens<'f> {
    /// Reads all tokens of a frame; `bytes` end where the frame ends.
    pub fn parse(bytes: &'f [u8]) -> Result<Tokens<'f>, BadFrame> {
        let mut reader = Reader(bytes);
        let mut tokens = Vec::with_capacity(24);
        let mut seen = [0_u64; SEEN_WORDS];
        while !reader.0.is_empty() {
            let token = reader.token()?;
            if tokens.len() == TOKENS_MAX {
                return Err(BadFrame::TooManyTokens);
            }
            if is_seen(&mut seen, token.id) || is_far_and_seen(&tokens, token.id) {
                return Err(BadFrame::RepeatedToken(token.id));
            }
            tokens.push(token);
        }
        debug_assert!(tokens.len() <= TOKENS_MAX, "a frame has so many tokens");
        Ok(Tokens(tokens))
    }

    pub fn get(&self, id: u16) -> Option<Value<'f>> {
        self.0.iter().find(|token| token.id == id).map(|token| token.value)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Token<'f>> {
        self.0.iter()
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        for token in &self.0 {
            put(out, token.id, token.value);
        }
    }
}

impl<'f> FromIterator<Token<'f>> for Tokens<'f> {
    fn from_iter<T: IntoIterator<Item = Token<'f>>>(tokens: T) -> Tokens<'f> {
        Tokens(tokens.into_iter().collect())
    }
}

/// Ids that have a name are below this many; each has a bit.
const SEEN_WORDS: usize = 5;

/// Whether the id came before, for ids that have a bit.
fn is_seen(seen: &mut [u64; SEEN_WORDS], id: u16) -> bool {
    let Some(word) = seen.get_mut(usize::from(id / 64)) else { return false };
    let bit = 1 << (id % 64);
    let was = *word & bit != 0;
    *word |= bit;
    was
}

fn is_far_and_seen(tokens: &[Token<'_>], id: u16) -> bool {
    usize::from(id / 64) >= SEEN_WORDS && tokens.iter().any(|token| token.id == id)
}

/// Appends a token.
///
/// # Panics
/// When a text is longer than its type allows; callers cut or refuse it before.
pub fn put(out: &mut Vec<u8>, id: u16, value: Value<'_>) {
    out.extend_from_slice(&id.to_le_bytes());
    out.push(type_of(&value));
    match value {
        Value::Byte(number) => out.push(number),
        Value::UShort(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::ULong(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Long(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::ULongLong(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::LongLong(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Guid(bytes) => out.extend_from_slice(&bytes),
        Value::Float(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::SmallString(bytes) | Value::SmallBytes(bytes) => {
            out.push(u8::try_from(bytes.len()).expect("a short text"));
            out.extend_from_slice(bytes);
        }
        Value::String(bytes) | Value::Bytes(bytes) => {
            let length = u16::try_from(bytes.len()).expect("a text of at most 65,535 bytes");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Value::ULongString(bytes) | Value::ULongBytes(bytes) => {
            let length = u32::try_from(bytes.len()).expect("a text below 4 GiB");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

fn type_of(value: &Value<'_>) -> u8 {
    match value {
        Value::Byte(_) => 0x00,
        Value::UShort(_) => 0x01,
        Value::ULong(_) => 0x02,
        Value::Long(_) => 0x03,
        Value::ULongLong(_) => 0x04,
        Value::LongLong(_) => 0x05,
        Value::Guid(_) => 0x06,
        Value::SmallString(_) => 0x07,
        Value::String(_) => 0x08,
        Value::ULongString(_) => 0x09,
        Value::SmallBytes(_) => 0x0a,
        Value::Bytes(_) => 0x0b,
        Value::ULongBytes(_) => 0x0c,
        Value::Float(_) => 0x0d,
        Value::Double(_) => 0x0e,
    }
}

/// The rest of a frame's tokens.
struct Reader<'f>(&'f [u8]);

impl<'f> Reader<'f> {
    fn token(&mut self) -> Result<Token<'f>, BadFrame> {
        let id = u16::from_le_bytes(self.array()?);
        let [kind] = self.array()?;
        let value = match kind {
            0x00 => Value::Byte(self.array::<1>()?[0]),
            0x01 => Value::UShort(u16::from_le_bytes(self.array()?)),
            0x02 => Value::ULong(u32::from_le_bytes(self.array()?)),
            0x03 => Value::Long(i32::from_le_bytes(self.array()?)),
            0x04 => Value::ULongLong(u64::from_le_bytes(self.array()?)),
            0x05 => Value::LongLong(i64::from_le_bytes(self.array()?)),
            0x06 => Value::Guid(self.array()?),
            0x07 => Value::SmallString(self.short()?),
            0x08 => Value::String(self.medium()?),
            0x09 => Value::ULongString(self.long()?),
            0x0a => Value::SmallBytes(self.short()?),
            0x0b => Value::Bytes(self.medium()?),
            0x0c => Value::ULongBytes(self.long()?),
            0x0d => Value::Float(f32::from_le_bytes(self.array()?)),
            0x0e => Value::Double(f64::from_le_bytes(self.array()?)),
            kind => return Err(BadFrame::UnknownType { id, kind }),
        };
        Ok(Token { id, value })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        let (array, rest) = self.0.split_first_chunk().ok_or(BadFrame::CutToken)?;
        self.0 = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'f [u8], BadFrame> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(BadFrame::CutToken)?;
        self.0 = rest;
        Ok(taken)
    }

    fn short(&mut self) -> Result<&'f [u8], BadFrame> {
        let [length] = self.array()?;
        self.take(length.into())
    }

    fn medium(&mut self) -> Result<&'f [u8], BadFrame> {
        let length = u16::from_le_bytes(self.array()?);
        self.take(length.into())
    }

    fn long(&mut self) -> Result<&'f [u8], BadFrame> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(usize::try_from(length).map_err(|_| BadFrame::CutToken)?)
    }
}
