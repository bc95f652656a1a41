//! Values of response headers as text, appended to one buffer.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use shardlake_stdx::Guid;

/// Facts about the request that a response repeats besides the outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo<'r> {
    pub activity_id: Guid,
    pub scheme: &'static str,
    /// Name or address under which the client knows this server.
    pub host: &'r str,
    pub request_uri: &'r str,
    pub duration: Duration,
}

/// Hundredths of a request unit as the shortest decimal: `1`, `5.71`, `10.5`.
pub(crate) fn push_charge(out: &mut Vec<u8>, centi: u64) {
    push_number(out, centi / 100);
    push_fraction(out, centi % 100, 2);
}

pub(crate) fn push_milliseconds(out: &mut Vec<u8>, duration: Duration) {
    let microseconds = duration.as_micros() as u64;
    push_number(out, microseconds / 1000);
    push_fraction(out, microseconds % 1000, 3);
}

pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A fraction of so many decimals, without trailing zeros; nothing for zero.
fn push_fraction(out: &mut Vec<u8>, fraction: u64, decimals: u32) {
    debug_assert!(fraction < 10_u64.pow(decimals), "a fraction has no more digits than its decimals");
    if fraction == 0 {
        return;
    }
    out.push(b'.');
    let mut rest = fraction;
    for decimal in (0..decimals).rev() {
        let unit = 10_u64.pow(decimal);
        out.push(b'0' + (rest / unit) as u8);
        rest %= unit;
        if rest == 0 {
            break;
        }
    }
}

/// Names as clients encode them in paths, which is how they look this header's value up again.
pub(crate) const PATH_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The address of the request; nothing where a part of it cannot be in a header.
pub(crate) fn push_location(out: &mut Vec<u8>, echo: Echo<'_>) {
    let start = out.len();
    [echo.scheme, "://", echo.host, echo.request_uri]
        .iter()
        .for_each(|part| out.extend_from_slice(part.as_bytes()));
    // Without an early end, which would have each byte looked at alone.
    let is_visible = out[start..].iter().fold(true, |all, byte| all & (*byte > b' ') & (*byte != 0x7f));
    if !is_visible {
        out.truncate(start);
    }
}

pub(crate) fn push_alt_content_path(out: &mut Vec<u8>, link: &str) {
    for part in utf8_percent_encode(link, PATH_ENCODED) {
        out.extend_from_slice(part.as_bytes());
    }
}
