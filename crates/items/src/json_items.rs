//! Items as JSON: what scripts write, and what front ends that speak JSON send.

use shardlake_document::{Body, DocumentError, ParseLimits, RawValue, parse_item};
use shardlake_model::{Error, ErrorKind, Limits, Result};

/// The body of an item from JSON text or Cosmos binary JSON. An id that is there is a string.
pub fn item_of_json(sent: &[u8], limits: &Limits) -> Result<Body> {
    let body = parse_item(sent, &ParseLimits::of_items(limits)).map_err(|error| invalid(&error, limits))?;
    match body.raw().get("id") {
        Some(RawValue::String(_)) | None => Ok(body),
        Some(_) => {
            Err(Error::bad_request("The input content is invalid because the property 'id' is not a string"))
        }
    }
}

fn invalid(error: &DocumentError, limits: &Limits) -> Error {
    match error {
        DocumentError::TooLarge { .. } => Error::new(
            ErrorKind::TooLarge,
            format!(
                "Request size is too large: an item takes at most {} bytes of JSON",
                limits.item_size_bytes_max
            ),
        ),
        other => Error::bad_request(format!("The input content is invalid: {other}")),
    }
}
