//! Requests and answers of HTTP/1.1 as bytes: as much of it as clients of S3 use.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use percent_encoding::percent_decode_str;

const BODY_BYTES_MAX: usize = 256 << 20;

pub(super) struct Request {
    pub method: String,
    /// Decoded, without the bucket.
    pub key: String,
    pub query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// `None` at the end of the connection.
    pub fn read(input: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let key = path.trim_start_matches('/').split_once('/').map_or("", |(_bucket, key)| key);
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        });
        let (method, key, query) = (method.to_owned(), decoded(key), query.collect());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            input.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length =
            headers.get("content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        if length > BODY_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        Ok(Some(Request { method, key, query, headers, body }))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn has_condition(&self) -> bool {
        self.header("if-none-match").is_some() || self.header("if-match").is_some()
    }

    /// `bytes=a-b`, `bytes=a-` or `bytes=-n` of `length` bytes.
    pub fn range(&self, length: usize) -> Option<(usize, usize)> {
        let (start, end) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let end_of = |end: &str| end.parse::<usize>().map_or(length, |end| (end + 1).min(length));
        match start.parse::<usize>() {
            Ok(start) => Some((start.min(length), end_of(end).max(start.min(length)))),
            Err(_) => Some((length - end.parse::<usize>().ok()?.min(length), length)),
        }
    }
}

pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn empty(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn xml(text: String) -> Answer {
        Answer {
            status: 200,
            headers: vec![("content-type", "application/xml".into())],
            body: text.into_bytes(),
        }
    }

    pub fn error(status: u16, code: &str) -> Answer {
        let text = format!("<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>");
        Answer { status, ..Answer::xml(text) }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Answer {
        self.headers.push((name, value));
        self
    }

    pub fn encode(&self, request: &Request) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Answer\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let is_length_told = self.headers.iter().any(|(name, _)| *name == "content-length");
        if self.status != 204 && !is_length_told {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        head += "\r\n";
        let body: &[u8] = if request.method == "HEAD" { &[] } else { &self.body };
        [head.as_bytes(), body].concat()
    }
}
