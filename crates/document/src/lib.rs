//! The document format: item bodies as BSON, JSON text and Cosmos binary JSON in and out, and everything that looks inside a document.
//!
//! | file | contents |
//! |---|---|
//! | `json_in.rs` | strict JSON text → BSON, streaming, with limits |
//! | `json_out.rs` | BSON → JSON text |
//! | `binary_in.rs`, `binary_strings.rs`, `binary_input.rs` | Cosmos binary JSON → BSON, streaming, with limits |
//! | `binary_out.rs` | BSON → Cosmos binary JSON |
//! | `binary_format.rs` | the binary format |
//! | `raw.rs`, `members.rs` | reads fields of a BSON document in place: one, or several in one walk |
//! | `non_json.rs`, `non_json_in.rs` | BSON values that JSON lacks, how JSON shows them, and back |
//! | `value.rs` | the owned tree for code that builds or changes documents |
//! | `order.rs` | the total order of values and its order-preserving byte encoding |
//! | `index_value.rs` | values as index keys hold them |
//! | `item_view.rs` | an item with the properties that the server owns |
//! | `record.rs` | the stored record: envelope, checksum, body |
//! | `document_keys.rs` | the values that a document has for an index, by MongoDB's rules |
//! | `item_id.rs`, `id_text.rs` | which items are the same: ids of any kind; the values that texts of ids stand for |
//! | `patch.rs`, `patch_tree.rs` | partial updates |
//! | `builder.rs`, `limits.rs` | containers, names and limits, for every format that is read |
//! | `key_text.rs` | partition keys as JSON text |
//! | `bson_writer.rs`, `scan.rs`, `body.rs` | the parts they share |
//!
//! Invariants: a [`Body`] holds no system property at top level and no duplicate name; integers within 64 bits stay
//! integers and doubles stay doubles through every conversion; the order of properties is kept. Nothing here knows
//! storage, the wire or time.

mod binary_format;
mod binary_in;
mod binary_input;
mod binary_out;
mod binary_strings;
mod body;
mod bson_writer;
mod builder;
mod document_keys;
mod error;
mod id_text;
mod index_value;
mod item_id;
mod item_view;
mod json_in;
mod json_out;
mod key_text;
mod limits;
mod members;
mod non_json;
mod non_json_in;
mod order;
mod patch;
mod patch_tree;
mod raw;
mod record;
mod scan;
mod value;

pub use binary_format::is_binary;
pub use binary_in::{json_of_binary, parse_binary_document};
pub use binary_out::{binary_of_json, write_binary};
pub use body::{Body, SYSTEM_PROPERTIES, is_system_property};
pub use document_keys::{Misfit, NO_ELEMENTS, UNIQUE_COMBINATIONS_MAX, keys_of, misfit_of};
pub use error::DocumentError;
pub use id_text::{ID_BYTES_MAX, IdValue, escaped_id, id_of_text, text_of_id, unescaped_id, value_of_id};
pub use index_value::{
    INDEX_STRING_BYTES_MAX, decode_index_value, encode_index_value, encode_index_value_raw,
    index_value_length,
};
pub use item_id::{
    ItemId, ItemName, bytes_of_url_text, hash_text, hash_text_by, identity_of, url_text_of_bytes,
};
pub use item_view::{ItemProperty, ItemView};
pub use json_in::{check_numbers, parse_document};
pub use json_out::{json_size, write_json, write_json_string, write_members, write_value};
pub use key_text::{KeyError, parse_partition_key, partition_key_text, write_key_component};
pub use limits::{NESTING_CEILING, ParseLimits};
pub use members::{MEMBERS_MAX, MemberNames, Members};
pub use non_json_in::with_non_json;
pub use order::{
    TypeTag, compare, compare_raw, compare_strings, decode_ordered, encode_ordered, encode_ordered_raw,
};
pub use patch::{PatchError, PatchOperation, apply_patch, parse_path, touched_properties};
pub use raw::{BsonKind, NonJson, RawArray, RawDocument, RawElement, RawValue};
pub use record::{Envelope, Record};
pub use value::{Number, Value};

/// Reads an item in the format that its first byte shows: JSON text or Cosmos binary JSON.
pub fn parse_item(bytes: &[u8], limits: &ParseLimits) -> Result<Body, DocumentError> {
    if is_binary(bytes) { parse_binary_document(bytes, limits) } else { parse_document(bytes, limits) }
}
