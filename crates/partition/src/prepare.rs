//! From what a client sent, JSON text or Cosmos binary JSON, to a body ready to be written: parsed, checked, rendered, analysed. No lock is held here.
//! Callers on threads that answer requests go through [`crate::prepare`], which works on heavy ones beside them.

use std::sync::Arc;

use shardlake_document::{DocumentError, ParseLimits, RawDocument, RawValue, parse_item, write_members};
use shardlake_model::{Error, ErrorKind, KeyComponent, KeyPath, Limits, PartitionKey, Result};

use crate::beside::{HEAVY_BYTES, beside};
use crate::operation::PreparedBody;
use crate::plan;
use crate::shape::ContainerShape;

/// [`prepare_body`], beside the threads that answer requests where the text is long.
pub async fn prepare(json: &[u8], shape: &Arc<ContainerShape>) -> Result<PreparedBody> {
    if json.len() <= HEAVY_BYTES {
        return prepare_body(json, shape);
    }
    let (json, shape) = (json.to_vec(), shape.clone());
    beside(move || prepare_body(&json, &shape)).await?
}

/// `sent` is JSON text or Cosmos binary JSON.
pub fn prepare_body(sent: &[u8], shape: &ContainerShape) -> Result<PreparedBody> {
    let limits = &shape.limits;
    let body =
        parse_item(sent, &ParseLimits::of_items(limits)).map_err(|error| document_error(&error, limits))?;
    let id = match body.raw().get("id") {
        Some(RawValue::String(id)) => id.to_owned(),
        Some(_) => {
            return Err(Error::bad_request(
                "The input content is invalid because the property 'id' is not a string",
            ));
        }
        None => {
            return Err(Error::bad_request(
                "The input content is invalid because the required properties - 'id; ' - are missing",
            ));
        }
    };
    validate_item_id(&id, limits)?;
    let ttl_seconds = plan::ttl_of(body.raw().get("ttl"))?;
    let mut members = Vec::with_capacity(sent.len());
    write_members(body.raw(), &mut members);
    plan::check_size(members.len(), shape)?;
    PreparedBody::new(id, body, members.into(), ttl_seconds, shape)
}

fn document_error(error: &DocumentError, limits: &Limits) -> Error {
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

/// 1 to 1,023 bytes, any characters: the service takes `/ \ ? #` too, although no client builds a path of such an id that
/// is not percent-encoded.
pub fn validate_item_id(id: &str, limits: &Limits) -> Result<()> {
    if id.is_empty() || id.len() > limits.item_id_bytes_max {
        return Err(Error::bad_request(format!(
            "The input name is invalid. Ensure to provide a unique non-empty string less than '{}' characters.",
            limits.item_id_bytes_max + 1
        )));
    }
    Ok(())
}

/// The key value that a body carries: missing properties, arrays and objects are undefined.
pub fn extract_partition_key(body: RawDocument<'_>, paths: &[KeyPath]) -> PartitionKey {
    let component = |path: &KeyPath| match body.get_path(&path.0) {
        Some(RawValue::Null) => KeyComponent::Null,
        Some(RawValue::Bool(value)) => KeyComponent::Bool(value),
        Some(RawValue::Int(number)) => KeyComponent::Number(number as f64),
        Some(RawValue::Double(number)) => KeyComponent::Number(number),
        Some(RawValue::String(text)) => KeyComponent::String(text.to_owned()),
        Some(RawValue::Array(_) | RawValue::Object(_)) | None => KeyComponent::Undefined,
    };
    PartitionKey(paths.iter().map(component).collect())
}
