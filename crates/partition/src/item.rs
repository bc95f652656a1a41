//! A stored item and how clients see it: body members first, then the properties the server owns.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::{Envelope, ItemView, RawDocument, Record, identity_of};
use shardlake_index::{IndexLayout, ItemTerms};
use shardlake_model::Result;
use shardlake_routing::{LogicalKey, effective_partition_key};
use shardlake_stdx::{Guid, HybridTime};
use shardlake_storage::CachedRow;

use crate::body_terms::{BodyTerms, IndexTerms};
use crate::cpu_pool::HEAVY_BYTES;
use crate::keys::{self, PartitionUid};
use crate::log::entry::OWN_REGION;
use crate::partition_key::extract_partition_key;
use crate::shape::ContainerSchema;

/// Characters that `_rid`, `_self`, `_etag`, `_attachments` and `_ts` add to an item besides `_self`'s link and `_ts`'s digits.
const SYSTEM_PROPERTIES_FIXED: usize = 160;

/// One version of an item.
#[derive(Debug, Clone)]
pub struct StoredItem {
    /// The record as stored.
    bytes: Bytes,
    /// The part of `bytes` that is the body.
    body: Bytes,
    envelope: Envelope,
    /// Members as text where a write has already rendered them.
    members: Option<Bytes>,
    /// Its body's terms, where they are known already.
    terms: Option<Arc<BodyTerms>>,
    shape: Arc<ContainerSchema>,
    /// Its place among the rows that are read again and again, where its text may be.
    hot: Option<CachedRow>,
}

impl StoredItem {
    /// Reads a record as stored; fails when its checksum does not match.
    pub fn decode(bytes: Bytes, shape: &Arc<ContainerSchema>) -> Result<StoredItem> {
        let record = Record::decode(&bytes).map_err(crate::corrupt)?;
        let (envelope, body) = (record.envelope, bytes.slice_ref(record.body.as_bytes()));
        Ok(StoredItem { bytes, body, envelope, members: None, terms: None, shape: shape.clone(), hot: None })
    }

    /// A version as a commit writes it.
    pub(crate) fn new(envelope: Envelope, body: RawDocument<'_>, shape: &Arc<ContainerSchema>) -> StoredItem {
        let bytes = Bytes::from(Record::encode(&envelope, body));
        let body = bytes.slice(bytes.len() - body.as_bytes().len()..);
        StoredItem { bytes, body, envelope, members: None, terms: None, shape: shape.clone(), hot: None }
    }

    /// Where it was kept, if it was.
    pub(crate) fn kept_at(self, hot: Option<CachedRow>) -> StoredItem {
        StoredItem { hot, ..self }
    }

    /// A version just written, of whose body this is known already: its terms, and its members as text where that was made.
    pub(crate) fn with(self, members: Option<Bytes>, terms: Arc<BodyTerms>) -> StoredItem {
        StoredItem { members, terms: Some(terms), ..self }
    }

    /// The terms of its body, if they were found out.
    pub(crate) fn known_terms(&self) -> Option<&Arc<BodyTerms>> {
        self.terms.as_ref()
    }

    /// With the terms of its body found out, under the policies that its shape knows.
    pub(crate) fn with_terms(mut self) -> StoredItem {
        if self.terms.is_none() {
            self.terms = Some(Arc::new(BodyTerms::of(self.body(), &self.shape)));
        }
        self
    }

    /// Whether work on all of it is too much for a thread that answers requests.
    pub fn is_heavy(&self) -> bool {
        self.json_size_bytes() > HEAVY_BYTES
    }

    /// Whether the text of its body has to be made first.
    pub fn is_heavy_to_render(&self) -> bool {
        self.members.is_none() && self.is_heavy()
    }

    pub(crate) fn index_terms(&self, layout: &IndexLayout) -> IndexTerms<'_> {
        let known = self.terms.as_ref().and_then(|terms| terms.of_layout(layout));
        let body = match known {
            Some(terms) => Cow::Borrowed(terms),
            None => Cow::Owned(ItemTerms::of_body(self.body(), layout, None).0),
        };
        IndexTerms { body, rest: ItemTerms::of_rest(&self.view(), layout) }
    }

    /// This version with the LSN and time of its commit.
    pub(crate) fn committed(&self, lsn: u64, time: HybridTime) -> StoredItem {
        let longer = digits(time.seconds()) as i64 - digits(self.envelope.timestamp_seconds()) as i64;
        let json_size_bytes = i64::from(self.envelope.json_size_bytes) + longer;
        let json_size_bytes = u32::try_from(json_size_bytes).expect("an item is longer than its time");
        let envelope = Envelope { lsn, time, region: OWN_REGION, json_size_bytes, ..self.envelope };
        let version = StoredItem::new(envelope, self.body(), &self.shape);
        StoredItem { members: self.members.clone(), terms: self.terms.clone(), ..version }
    }

    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub fn body(&self) -> RawDocument<'_> {
        RawDocument::assume_valid(&self.body)
    }

    /// The name of this item in the change log: its key without partition and space.
    pub fn name_in_log(&self, shape: &ContainerSchema) -> Vec<u8> {
        let id = identity_of(self.body()).unwrap_or_default();
        keys::item_key(PartitionUid(0), &self.logical(shape), &id).split_off(keys::HEADER)
    }

    /// Where this item lies in a feed: its logical partition and its ordinal.
    pub fn position(&self, shape: &ContainerSchema) -> Vec<u8> {
        let logical = keys::logical_prefix(PartitionUid(0), &self.logical(shape));
        keys::created_key(PartitionUid(0), &logical[keys::HEADER..], self.ordinal()).split_off(keys::HEADER)
    }

    /// Ascends with the creation of the items of a logical partition.
    pub fn ordinal(&self) -> u64 {
        self.envelope().ordinal
    }

    fn logical(&self, shape: &ContainerSchema) -> LogicalKey {
        let partition_key = extract_partition_key(self.body(), &shape.key_paths);
        let epk = effective_partition_key(&shape.key_definition, &partition_key);
        LogicalKey { epk, partition_key }
    }

    /// The record as stored.
    pub fn record_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    pub fn etag(&self) -> Guid {
        self.envelope().etag
    }

    pub fn lsn(&self) -> u64 {
        self.envelope().lsn
    }

    /// UTF-8 size of the output of [`StoredItem::write_json`]; limits and charges are counted in
    /// it.
    pub fn json_size_bytes(&self) -> usize {
        self.envelope().json_size_bytes as usize
    }

    pub fn is_expired(&self, now_seconds: u64) -> bool {
        let envelope = self.envelope();
        self.shape.is_expired(envelope.timestamp_seconds(), envelope.ttl_seconds, now_seconds)
    }

    /// The item as clients and queries see it.
    pub fn view(&self) -> ItemView<'_> {
        ItemView {
            body: self.body(),
            envelope: &self.envelope,
            container: self.shape.rid,
            items_link: &self.shape.items_link,
        }
    }

    /// The item as clients see it: made once for an item that is read again and again.
    pub fn json_text(&self) -> Bytes {
        if let Some(text) = self.hot.as_ref().and_then(CachedRow::form) {
            return text.clone();
        }
        let mut text = Vec::with_capacity(self.json_size_bytes());
        self.write_json(&mut text);
        let text = Bytes::from(text);
        if let Some(hot) = &self.hot {
            hot.keep_form(&text);
        }
        text
    }

    /// Appends the item as clients see it.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(self.json_size_bytes());
        match &self.members {
            Some(members) => self.view().write_json_of_members(members, out),
            None => self.view().write_json(out),
        }
        debug_assert_eq!(out.len() - start, self.json_size_bytes(), "the stored size is the rendered size");
    }
}

/// The JSON size of an item, from its record.
pub(crate) fn stored_size(record: &[u8]) -> Result<u64> {
    let record = Record::decode(record).map_err(crate::corrupt)?;
    Ok(u64::from(record.envelope.json_size_bytes))
}

/// Size of the rendered item whose body members take `members` bytes. Every item has an `id`, so there is a comma.
pub(crate) fn rendered_size(members: usize, shape: &ContainerSchema, timestamp_seconds: u64) -> usize {
    members + SYSTEM_PROPERTIES_FIXED + shape.items_link.len() + digits(timestamp_seconds)
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
