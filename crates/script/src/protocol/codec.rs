//! Messages as bytes: frames of `postcard`, each with its header.
//!
//! A decoder takes any bytes: input that is cut short, too long or not a message is [`Malformed`]. Memory is
//! allocated for bytes that have arrived, never for an announced length.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HEADER_BYTES, Order, Report};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Collects frames, each with its header.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Releases the capacity of large frames.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.bytes.shrink_to(bytes);
    }

    /// The frames so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn order(&mut self, order: &Order<'_>) {
        self.frame(order);
    }

    /// Encodes [`Order::Call`] from borrowed rows.
    pub(crate) fn call(&mut self, function: u32, time: Duration, rows: &[Vec<Option<String>>]) {
        self.frame(&Order::Call { function, time, rows: Cow::Borrowed(rows) });
    }

    pub(crate) fn report(&mut self, report: &Report) {
        self.frame(report);
    }

    fn frame(&mut self, message: &impl Serialize) {
        let start = self.bytes.len();
        self.bytes.extend([0; HEADER_BYTES]);
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = postcard::to_extend(message, bytes).expect("a vector takes any message");
        assert!(self.bytes.len() >= start + HEADER_BYTES, "each frame has its header");
        let length = self.bytes.len() - start - HEADER_BYTES;
        // A length beyond four bytes is beyond the maximum too, and refused by the reader.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes[start..][..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }
}

/// Decodes a whole frame without its header.
pub(crate) fn decode_order(frame: &[u8]) -> Result<Order<'static>, Malformed> {
    decode(frame)
}

/// Decodes a report.
pub(crate) fn decode_report(frame: &[u8]) -> Result<Report, Malformed> {
    decode(frame)
}

fn decode<'f, M: Deserialize<'f>>(frame: &'f [u8]) -> Result<M, Malformed> {
    match postcard::take_from_bytes(frame) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests;
