//! One HTTP response as it arrived.

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// In the order received, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// # Panics
    /// When the body is not JSON; the message shows the whole response.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in the body of {self}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn etag(&self) -> Option<&str> {
        self.header("etag")
    }

    pub fn lsn(&self) -> Option<u64> {
        self.header("lsn")?.parse().ok()
    }

    /// The sub-status; zero when the header is absent, as the SDKs read it.
    ///
    /// # Panics
    /// When the header is not a number.
    pub fn sub_status(&self) -> u32 {
        self.header("x-ms-substatus")
            .map_or(0, |text| text.parse().unwrap_or_else(|_| panic!("x-ms-substatus: {text} in {self}")))
    }

    /// # Panics
    /// When the status is another one; the message shows the whole response.
    #[must_use]
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Response {
        assert_eq!(self.status, status, "expected {status}, got {self}");
        self
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "HTTP {}", self.status)?;
        for (name, value) in &self.headers {
            writeln!(formatter, "  {name}: {value}")?;
        }
        formatter.write_str(&String::from_utf8_lossy(&self.body[..self.body.len().min(2000)]))
    }
}
