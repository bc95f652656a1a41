//! Items as JSON, from scripts and from front ends that speak JSON.

use shardlake_document::{Body, DocumentError, ParseLimits, RawValue, parse_item, with_non_json};
use shardlake_model::{Error, ErrorKind, Limits, Result};

/// The body of an item that is written into a container. In a collection, objects that represent values
/// without a JSON form become these values (mongo.md §11.3): a client that reads an item as JSON and writes
/// it again changes none of its dates.
pub fn item_of_json_in(sent: &[u8], limits: &Limits, is_collection: bool) -> Result<Body> {
    let body = item_of_json(sent, limits)?;
    Ok(if is_collection { with_non_json(body) } else { body })
}

/// The body of an item from JSON text or Cosmos binary JSON. An id must be a string.
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
