//! Messages as bytes: frames of `postcard`, each with its header.
//!
//! A decoder takes any bytes: what is cut short, too long or no message is [`Malformed`]. Memory is taken for what has arrived, never for
//! what a length announces.

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

    /// Gives back what large frames took.
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

    /// [`Order::Call`] of borrowed rows.
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
        let length = self.bytes.len() - start - HEADER_BYTES;
        // A length past four bytes is past the maximum too, and refused where it is read.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes[start..][..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }
}

/// A whole frame without its header.
pub(crate) fn decode_order(frame: &[u8]) -> Result<Order<'static>, Malformed> {
    decode(frame)
}

/// Likewise.
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
