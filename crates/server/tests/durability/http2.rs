//! The part of HTTP/2 that is needed to send one request and to reset it.

use std::io::{Result, Write};
use std::net::TcpStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: u32 = 8;
/// The first that a client may use.
const STREAM: u32 = 1;

/// Sends an HTTP/1.1 request as HTTP/2, and returns its stream.
pub fn send(stream: &mut TcpStream, request: &[u8]) -> Result<u32> {
    let head_end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a request has a head");
    let head = std::str::from_utf8(&request[..head_end]).expect("we write text");
    let body = &request[head_end + 4..];
    let mut lines = head.split("\r\n");
    let mut first = lines.next().expect("a request has a first line").split(' ');
    let mut block = Vec::new();
    let mut authority = "";
    let mut rest = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").expect("we write headers so");
        if name == "host" { authority = value } else { rest.push((name, value)) }
    }
    literal(&mut block, ":method", first.next().expect("a method"));
    literal(&mut block, ":scheme", "http");
    literal(&mut block, ":path", first.next().expect("a path"));
    literal(&mut block, ":authority", authority);
    rest.iter().for_each(|(name, value)| literal(&mut block, &name.to_ascii_lowercase(), value));
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, SETTINGS, 0, 0, b"");
    let last = if body.is_empty() { END_STREAM } else { 0 };
    frame(&mut bytes, HEADERS, END_HEADERS | last, STREAM, &block);
    if !body.is_empty() {
        frame(&mut bytes, DATA, END_STREAM, STREAM, body);
    }
    stream.write_all(&bytes)?;
    Ok(STREAM)
}

/// The client wants no answer any more.
pub fn reset(stream: &mut TcpStream, stream_id: u32) -> Result<()> {
    let mut bytes = Vec::new();
    frame(&mut bytes, RST_STREAM, 0, stream_id, &CANCEL.to_be_bytes());
    stream.write_all(&bytes)
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream_id: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("frames are short");
    bytes.extend(&length.to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream_id.to_be_bytes());
    bytes.extend(payload);
}

/// A field that neither side remembers, its name and value as they are.
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    text(block, name);
    text(block, value);
}

fn text(block: &mut Vec<u8>, value: &str) {
    if value.len() < 127 {
        block.push(value.len() as u8);
    } else {
        block.push(127);
        let mut rest = value.len() - 127;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        block.push(rest as u8);
    }
    block.extend(value.as_bytes());
}
