//! Input of the reader of Cosmos binary JSON: bytes from one position on, and the bounds of `binary_in.rs`.

use shardlake_stdx::codec::{Number, Reader};

use crate::binary_format::PREAMBLE;
use crate::builder::Builder;
use crate::error::DocumentError;
use crate::limits::{ParseLimits, SIZE_CEILING_BYTES};

/// The end of an open container.
pub(crate) struct Span {
    pub end: End,
    /// The announced number of values.
    pub count: Option<usize>,
    pub values: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum End {
    At(usize),
    AfterOne,
}

pub(crate) struct BinaryInput<'b> {
    pub bytes: &'b [u8],
    rest: Reader<'b>,
    pub builder: Builder,
    /// The spans of the builder's open containers.
    pub spans: Vec<Span>,
    /// A lower bound for the JSON text of the values so far, in bytes.
    text_bytes: usize,
    text_bytes_max: usize,
}

impl<'b> BinaryInput<'b> {
    pub fn new(bytes: &'b [u8], limits: &ParseLimits) -> Result<Self, DocumentError> {
        let text_bytes_max = limits.size_max_bytes.min(SIZE_CEILING_BYTES);
        if bytes.len() > SIZE_CEILING_BYTES {
            return Err(DocumentError::TooLarge {
                size_bytes: bytes.len(),
                size_bytes_max: SIZE_CEILING_BYTES,
            });
        }
        let capacity = bytes.len().min(text_bytes_max);
        let mut reader = BinaryInput {
            bytes,
            rest: Reader::new(bytes),
            builder: Builder::new(capacity + capacity / 8 + 32, limits),
            spans: Vec::with_capacity(8),
            text_bytes: 0,
            text_bytes_max,
        };
        if reader.byte()? != PREAMBLE {
            return Err(reader.invalid_at(0, "it does not begin with the byte 80"));
        }
        Ok(reader)
    }

    /// Counts bytes of the document's JSON text.
    #[inline]
    pub fn spend(&mut self, text_bytes: usize) -> Result<(), DocumentError> {
        self.text_bytes += text_bytes;
        if self.text_bytes > self.text_bytes_max {
            return Err(DocumentError::TooLarge {
                size_bytes: self.text_bytes,
                size_bytes_max: self.text_bytes_max,
            });
        }
        Ok(())
    }

    /// The position of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.bytes.len() - self.rest.rest().len()
    }

    /// Continues at another position; behind the end nothing is left.
    pub fn seek(&mut self, at: usize) {
        self.rest = Reader::new(self.bytes.get(at..).unwrap_or_default());
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, DocumentError> {
        self.rest.byte().ok_or_else(|| self.ends_early())
    }

    #[inline]
    pub fn number_le<N: Number>(&mut self) -> Result<N, DocumentError> {
        self.rest.le().ok_or_else(|| self.ends_early())
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DocumentError> {
        self.rest.array().ok_or_else(|| self.ends_early())
    }

    /// The next bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'b [u8], DocumentError> {
        self.rest.take(count).ok_or_else(|| self.ends_early())
    }

    fn ends_early(&self) -> DocumentError {
        self.invalid("the document ends too early")
    }

    /// A length, count or offset of up to 4 bytes.
    #[inline]
    pub fn length(&mut self, width: usize) -> Result<usize, DocumentError> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    pub fn invalid(&self, what: &'static str) -> DocumentError {
        self.invalid_at(self.at(), what)
    }

    pub fn invalid_at(&self, offset: usize, what: &'static str) -> DocumentError {
        DocumentError::InvalidBinary { offset, what }
    }
}
