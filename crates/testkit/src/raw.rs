//! A TCP connection that sends any bytes and reads HTTP/1.1 responses, strictly.
//!
//! The reader trusts nothing: a response without a length, with a second status line or with too few bytes is
//! an error, because a lenient reader would hide framing mistakes of the server. Reading and writing have a deadline,
//! so that a hanging server fails a test instead of stopping it.

use crate::Response;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct RawConnection {
    reader: BufReader<TcpStream>,
}

impl RawConnection {
    pub fn open(address: SocketAddr) -> Result<RawConnection> {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(RawConnection { reader: BufReader::new(stream) })
    }

    pub fn set_deadline(&self, deadline: Duration) -> Result<()> {
        self.reader.get_ref().set_read_timeout(Some(deadline))
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Ends our half, like a client that disconnects in the middle of a request.
    pub fn close_sending(&mut self) -> Result<()> {
        self.reader.get_ref().shutdown(std::net::Shutdown::Write)
    }

    /// Everything until the server closes the connection, for replies that are not HTTP.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The next response; `method` decides whether a body may follow at all.
    pub fn read_response(&mut self, method: &str) -> Result<Response> {
        let status = self.read_status()?;
        let headers = self.read_headers()?;
        let mut response = Response { status, headers, body: Vec::new() };
        let bodiless = method.eq_ignore_ascii_case("HEAD") || matches!(status, 100..=199 | 204 | 304);
        if !bodiless {
            response.body = self.read_body(&response)?;
        }
        Ok(response)
    }

    fn read_status(&mut self) -> Result<u16> {
        let line = self.read_line()?;
        let mut parts = line.splitn(3, ' ');
        let version = parts.next().unwrap_or_default();
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(invalid(format!("status line '{line}'")));
        }
        parts
            .next()
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| invalid(format!("status line '{line}'")))
    }

    fn read_headers(&mut self) -> Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok(headers);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid(format!("header '{line}'")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn read_body(&mut self, head: &Response) -> Result<Vec<u8>> {
        if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return self.read_chunks();
        }
        let length =
            head.header("content-length").ok_or_else(|| invalid(format!("no body length in {head}")))?;
        let length: usize = length.parse().map_err(|_| invalid(format!("content-length '{length}'")))?;
        self.read_exactly(length)
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| invalid(format!("chunk size '{line}'")))?;
            body.extend(self.read_exactly(size)?);
            if size > 0 {
                self.read_line()?;
            } else {
                self.read_headers()?; // trailers
                return Ok(body);
            }
        }
    }

    fn read_exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(body)
    }

    fn read_line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        let text = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| invalid(format!("line without CRLF: {:?}", String::from_utf8_lossy(&line))))?;
        // Header values may be any bytes above 0x7F; tests compare ASCII ones only.
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}
