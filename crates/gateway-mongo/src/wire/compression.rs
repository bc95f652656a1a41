//! OP_COMPRESSED: a message in a message.
//!
//! A stated size is checked before anything is allocated, and nothing is unpacked beyond it: a few bytes that claim to
//! be gigabytes, or are, end the connection.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::bytes::Bytes;
use super::fault::Fault;
use super::header::{HEADER_SIZE_BYTES, MESSAGE_SIZE_BYTES_MAX, OP_COMPRESSED};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    Noop,
    Snappy,
    Zlib,
    Zstd,
}

impl Compressor {
    /// By the name that clients offer.
    pub fn of_name(name: &str) -> Option<Compressor> {
        match name {
            "snappy" => Some(Compressor::Snappy),
            "zlib" => Some(Compressor::Zlib),
            "zstd" => Some(Compressor::Zstd),
            _ => None,
        }
    }

    fn of_number(number: u8) -> Option<Compressor> {
        [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd]
            .get(usize::from(number))
            .copied()
    }

    fn number(self) -> u8 {
        self as u8
    }

    fn compress(self, content: &[u8]) -> Option<Vec<u8>> {
        match self {
            Compressor::Noop => Some(content.to_vec()),
            Compressor::Snappy => snap::raw::Encoder::new().compress_vec(content).ok(),
            Compressor::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(content).ok()?;
                encoder.finish().ok()
            }
            Compressor::Zstd => Some(compress_to_vec(content, CompressionLevel::Fastest)),
        }
    }

    /// The content if it has exactly this many bytes.
    fn decompress(self, compressed: &[u8], size: usize) -> Option<Vec<u8>> {
        let content = match self {
            Compressor::Noop => compressed.to_vec(),
            Compressor::Snappy => {
                if snap::raw::decompress_len(compressed).ok()? != size {
                    return None;
                }
                snap::raw::Decoder::new().decompress_vec(compressed).ok()?
            }
            Compressor::Zlib => read_up_to(ZlibDecoder::new(compressed), size)?,
            Compressor::Zstd => read_up_to(StreamingDecoder::new(compressed).ok()?, size)?,
        };
        (content.len() == size).then_some(content)
    }
}

/// Reads at most one byte more than `size`, so that the caller detects a content longer than announced.
fn read_up_to(reader: impl Read, size: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(size as u64 + 1).read_to_end(&mut content).ok()?;
    Some(content)
}

/// A compressed message of which only the head was parsed.
pub struct Compressed<'m> {
    pub compressor: Compressor,
    /// Of the message inside.
    pub opcode: i32,
    /// Unpacked size of the message inside.
    pub size_bytes: usize,
    content: &'m [u8],
}

impl<'m> Compressed<'m> {
    pub fn parse(payload: &'m [u8]) -> Result<Compressed<'m>, Fault> {
        let mut bytes = Bytes(payload);
        let opcode = bytes.i32()?;
        let size = bytes.i32()?;
        let number = bytes.u8()?;
        let Some(compressor) = Compressor::of_number(number) else {
            return Err(Fault::close(format!("compressor {number} is not known")));
        };
        let size_max = MESSAGE_SIZE_BYTES_MAX - HEADER_SIZE_BYTES;
        match usize::try_from(size) {
            Ok(_) if opcode == OP_COMPRESSED => Err(Fault::close("a message is compressed twice")),
            Ok(size_bytes) if size_bytes <= size_max => {
                Ok(Compressed { compressor, opcode, size_bytes, content: bytes.0 })
            }
            _ => Err(Fault::close(format!("a compressed message has an impossible size: {size}"))),
        }
    }

    pub fn unpack(&self) -> Result<Vec<u8>, Fault> {
        let unpacked = self.compressor.decompress(self.content, self.size_bytes);
        unpacked.ok_or_else(|| Fault::close("a compressed message is damaged, or not as long as it says"))
    }
}

/// The payload of a compressed message.
pub fn pack(compressor: Compressor, opcode: i32, content: &[u8]) -> Option<Vec<u8>> {
    assert!(i32::try_from(content.len()).is_ok(), "the size of a message fits its field");
    let compressed = compressor.compress(content)?;
    let mut payload = Vec::with_capacity(9 + compressed.len());
    payload.extend(opcode.to_le_bytes());
    payload.extend((content.len() as i32).to_le_bytes());
    payload.push(compressor.number());
    payload.extend(compressed);
    Some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::OP_MSG;

    const ALL: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

    #[test]
    fn what_is_packed_unpacks_to_itself() {
        let texts = [Vec::new(), vec![7; 300_000], (0..100_000u32).flat_map(u32::to_le_bytes).collect()];
        for (compressor, text) in ALL.into_iter().flat_map(|it| texts.iter().map(move |text| (it, text))) {
            let payload = pack(compressor, OP_MSG, text).expect("packs");
            let compressed = Compressed::parse(&payload).expect("is one");
            assert_eq!((compressed.compressor, compressed.opcode), (compressor, OP_MSG));
            assert_eq!(compressed.unpack().expect("unpacks"), *text, "{compressor:?}");
        }
    }

    #[test]
    fn a_size_that_is_not_the_content_s_is_refused() {
        for compressor in ALL {
            let payload = pack(compressor, OP_MSG, &[1; 5000]).expect("packs");
            for size in [0, 4999, 5001, 40_000_000] {
                let mut lying = payload.clone();
                lying[4..8].copy_from_slice(&i32::to_le_bytes(size));
                assert!(
                    Compressed::parse(&lying).expect("possible").unpack().is_err(),
                    "{compressor:?} {size}"
                );
            }
            for size in [-1, 48_000_000, i32::MAX] {
                let mut lying = payload.clone();
                lying[4..8].copy_from_slice(&i32::to_le_bytes(size));
                assert!(Compressed::parse(&lying).is_err(), "{compressor:?} {size}");
            }
        }
    }

    #[test]
    fn damaged_content_is_refused() {
        for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
            let payload = pack(compressor, OP_MSG, &[1; 5000]).expect("packs");
            for cut in [9, 10, payload.len() - 1] {
                let compressed = Compressed::parse(&payload[..cut]).expect("the head is whole");
                assert!(compressed.unpack().is_err(), "{compressor:?} cut at {cut}");
            }
        }
    }
}
