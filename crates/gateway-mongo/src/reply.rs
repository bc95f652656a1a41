//! A command's answer: fields, and a batch of documents if it reads from a cursor.
//!
//! Documents of a batch are BSON already and are copied into the message as they are.

use bytes::Bytes;
use shardlake_mql::Document;

/// An answer before the dispatcher adds `ok` and the other fields of every reply.
#[derive(Debug, Default)]
pub struct Reply {
    pub fields: Document,
    pub cursor: Option<CursorReply>,
}

/// The field `cursor`, before all others.
#[derive(Debug)]
pub struct CursorReply {
    /// 0 if the cursor is exhausted.
    pub id: i64,
    pub namespace: String,
    pub is_first: bool,
    pub documents: Vec<Bytes>,
    pub resume_token: Option<Document>,
}

impl From<Document> for Reply {
    fn from(fields: Document) -> Reply {
        Reply { fields, cursor: None }
    }
}

impl Reply {
    /// A reply with `ok` alone.
    pub fn ok() -> Reply {
        Reply::default()
    }

    /// A complete result, in one batch.
    pub fn of_all(namespace: String, documents: impl IntoIterator<Item = Bytes>) -> Reply {
        let documents = documents.into_iter().collect();
        let cursor = CursorReply { id: 0, namespace, is_first: true, documents, resume_token: None };
        Reply { fields: Document::new(), cursor: Some(cursor) }
    }

    /// The whole reply as BSON. `append` adds members after its own.
    pub fn to_bytes(&self, append: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + self.cursor.as_ref().map_or(0, CursorReply::size_bytes));
        let start = open(&mut out);
        if let Some(cursor) = &self.cursor {
            name(&mut out, EMBEDDED_DOCUMENT, "cursor");
            cursor.write(&mut out);
        }
        self.fields.append_members(&mut out);
        append(&mut out);
        close(&mut out, start);
        out
    }
}

impl CursorReply {
    fn size_bytes(&self) -> usize {
        self.documents.iter().map(|document| document.len() + 8).sum()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = open(out);
        name(out, ARRAY, if self.is_first { "firstBatch" } else { "nextBatch" });
        let batch = open(out);
        for (place, document) in self.documents.iter().enumerate() {
            name(out, EMBEDDED_DOCUMENT, &place.to_string());
            out.extend_from_slice(document);
        }
        close(out, batch);
        if let Some(token) = &self.resume_token {
            Document::one("postBatchResumeToken", token.clone()).append_members(out);
        }
        name(out, INT64, "id");
        out.extend_from_slice(&self.id.to_le_bytes());
        name(out, STRING, "ns");
        out.extend_from_slice(&(self.namespace.len() as i32 + 1).to_le_bytes());
        out.extend_from_slice(self.namespace.as_bytes());
        out.push(0);
        close(out, start);
    }
}

const STRING: u8 = 2;
const INT64: u8 = 18;
const EMBEDDED_DOCUMENT: u8 = 3;
const ARRAY: u8 = 4;

fn open(out: &mut Vec<u8>) -> usize {
    out.extend([0; 4]);
    out.len() - 4
}

fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn name(out: &mut Vec<u8>, kind: u8, name: &str) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_part_of_the_reply() {
        let documents = (0..12).map(|number| Bytes::from(Document::one("a", number).to_bytes())).collect();
        let cursor =
            CursorReply { id: 7, namespace: "d.c".into(), is_first: true, documents, resume_token: None };
        let reply = Reply { fields: Document::one("ok", 1.0), cursor: Some(cursor) };
        let read = Document::from_bytes(&reply.to_bytes(|_| ())).expect("is BSON");
        assert_eq!(read.first().map(|(name, _)| name.to_string()).as_deref(), Some("cursor"));
        let cursor = read.value("cursor");
        let cursor = cursor.as_document().expect("a document");
        assert_eq!(cursor.value("id").to_i64_exact(), Some(7));
        let batch = cursor.value("firstBatch");
        let batch = batch.as_array().expect("an array");
        assert_eq!(batch.len(), 12);
        assert_eq!(batch[11].as_document().expect("a document").value("a").to_i64_exact(), Some(11));
        assert_eq!(read.value("ok").to_f64(), Some(1.0));
    }
}
