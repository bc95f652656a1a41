//! An item as clients and queries see it: the members of its body, then the properties that the server owns.

use shardlake_model::{ContainerRid, ItemRid};

use crate::binary_format::{PREAMBLE, marker};
use crate::binary_out::{self, Open};
use crate::json_out::{write_int, write_members};
use crate::raw::{RawDocument, RawValue};
use crate::record::Envelope;
use crate::value::Value;

/// A stored item, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct ItemView<'a> {
    pub body: RawDocument<'a>,
    pub envelope: &'a Envelope,
    pub container: ContainerRid,
    /// `dbs/{rid}/colls/{rid}/docs/`, the start of `_self`.
    pub items_link: &'a str,
}

/// A property of an item: inside its body, or made from its envelope.
#[derive(Debug, Clone)]
pub enum ItemProperty<'a> {
    Stored(RawValue<'a>),
    System(Value),
}

impl<'a> ItemView<'a> {
    pub fn rid(&self) -> String {
        ItemRid { container: self.container, ordinal: self.envelope.ordinal }.text()
    }

    /// A property at the top level.
    pub fn get(&self, name: &str) -> Option<ItemProperty<'a>> {
        if !name.starts_with('_') {
            return self.body.get(name).map(ItemProperty::Stored);
        }
        let system = match name {
            "_rid" => Value::String(self.rid()),
            "_self" => Value::String(format!("{}{}/", self.items_link, self.rid())),
            "_etag" => Value::String(format!("\"{}\"", self.envelope.etag)),
            "_attachments" => Value::String("attachments/".to_owned()),
            "_ts" => Value::Int(self.envelope.timestamp_seconds() as i64),
            _ => return self.body.get(name).map(ItemProperty::Stored),
        };
        Some(ItemProperty::System(system))
    }

    /// The system properties in the order in which they are shown.
    pub fn system_properties(&self) -> impl Iterator<Item = (&'static str, Value)> {
        ["_rid", "_self", "_etag", "_attachments", "_ts"].into_iter().filter_map(|name| {
            match self.get(name) {
                Some(ItemProperty::System(value)) => Some((name, value)),
                _ => None,
            }
        })
    }

    /// The whole item as an owned tree.
    pub fn to_value(&self) -> Value {
        let Value::Object(mut members) = Value::from_document(self.body) else { return Value::Undefined };
        members.extend(self.system_properties().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(members)
    }

    /// Appends the item as JSON text.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        write_members(self.body, out);
        self.write_system_properties(out.len() > start, out);
    }

    /// Appends the item as JSON text, whose body's members are already text.
    pub fn write_json_of_members(&self, members: &[u8], out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(members);
        self.write_system_properties(!members.is_empty(), out);
    }

    /// Appends the item as Cosmos binary JSON.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        out.push(PREAMBLE);
        let item = Open::new(marker::OBJECT_EMPTY, usize::MAX, out);
        binary_out::write_members(self.body, 0, out);
        let rid = self.rid();
        for (name, text) in [
            ("_rid", rid.as_str()),
            ("_self", &format!("{}{rid}/", self.items_link)),
            ("_etag", &format!("\"{}\"", self.envelope.etag)),
            ("_attachments", "attachments/"),
        ] {
            binary_out::write_string(name, out);
            binary_out::write_string(text, out);
        }
        binary_out::write_string("_ts", out);
        binary_out::write_int(self.envelope.timestamp_seconds() as i64, out);
        item.close(out);
    }

    fn write_system_properties(&self, after_others: bool, out: &mut Vec<u8>) {
        let rid = self.rid();
        if after_others {
            out.push(b',');
        }
        out.extend_from_slice(b"\"_rid\":\"");
        out.extend_from_slice(rid.as_bytes());
        out.extend_from_slice(b"\",\"_self\":\"");
        out.extend_from_slice(self.items_link.as_bytes());
        out.extend_from_slice(rid.as_bytes());
        out.extend_from_slice(b"/\",\"_etag\":\"\\\"");
        out.extend_from_slice(&self.envelope.etag.to_ascii());
        out.extend_from_slice(b"\\\"\",\"_attachments\":\"attachments/\",\"_ts\":");
        write_int(self.envelope.timestamp_seconds() as i64, out);
        out.push(b'}');
    }
}
