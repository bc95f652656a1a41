//! Frames: four bytes of length, least significant first, and that many bytes.

use std::io::{self, Read, Write};

pub(crate) const HEADER_BYTES: usize = 4;

/// More than a batch of the largest documents or a page of them; a larger frame is an error.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The length that a header announces, refused when it is past the maximum.
pub(crate) fn frame_length(header: [u8; HEADER_BYTES]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame past its maximum length"));
    }
    Ok(length)
}

/// Reads one frame into `buffer`; false at the end of the stream between two frames.
pub(crate) fn read_frame(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut header = [0; HEADER_BYTES];
    if read_some(stream, &mut header[..1])? == 0 {
        return Ok(false);
    }
    stream.read_exact(&mut header[1..])?;
    let length = frame_length(header)?;
    buffer.clear();
    // The buffer grows with the bytes that arrive, not with the announced length.
    if (&mut *stream).take(length as u64).read_to_end(buffer)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

/// A read that goes on after a signal, as `read_exact` does: a process that was stopped and continues would
/// otherwise lose its stream.
fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Writes a frame of [`super::Encoder`], header included.
pub(crate) fn write_frame(stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    stream.write_all(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is interrupted before each byte.
    struct Interrupted<'b>(&'b [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let room = buffer.len().min(1);
            self.0.read(&mut buffer[..room])
        }
    }

    #[test]
    fn a_signal_does_not_end_a_frame() {
        let mut buffer = Vec::new();
        let mut stream = Interrupted(&[2, 0, 0, 0, b'a', b'b'], false);
        assert!(read_frame(&mut stream, &mut buffer).expect("is read"));
        assert_eq!(buffer, b"ab");
        assert!(!read_frame(&mut stream, &mut buffer).expect("is at its end"));
    }

    #[test]
    fn frames_are_told_apart_and_their_end_too() {
        let bytes = [3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 9, 0, 0, 0, b'x'];
        let (mut stream, mut buffer) = (&bytes[..], Vec::new());
        assert!(read_frame(&mut stream, &mut buffer).unwrap());
        assert_eq!(buffer, b"abc");
        assert!(read_frame(&mut stream, &mut buffer).unwrap());
        assert_eq!(buffer, b"");
        assert!(read_frame(&mut stream, &mut buffer).is_err(), "cut short");
        assert!(!read_frame(&mut &[][..], &mut buffer).unwrap(), "nothing more");
        assert!(read_frame(&mut &[255, 255, 255, 255][..], &mut buffer).is_err(), "too long");
    }
}
