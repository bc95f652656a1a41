//! Results of a batch or bulk request: a JSON array, or HybridRow where the request was HybridRow.

use http::StatusCode;
use shardlake_account::{ContainerHandle, ItemReply, StoredItem};
use shardlake_hybrid_row::{OperationResult, start, write_result};
use shardlake_model::{Error, ReplyMeta};
use shardlake_stdx::Guid;

use crate::header_text::push_charge;
use crate::reply::Reply;
use crate::{errors, items};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFormat {
    Json,
    HybridRow { has_binary_items: bool },
}

/// The results of a request as they grow.
pub(super) struct Results {
    body: Vec<u8>,
    format: ResultFormat,
    /// An operation failed, or clients of a batch must not take it for a success.
    failed: bool,
    is_first: bool,
}

/// The result of one operation.
#[derive(Default)]
struct OneResult<'r> {
    status: StatusCode,
    substatus: u32,
    charge_centi: u64,
    /// The etag of the item that was read or written.
    etag: Option<Guid>,
    /// That item, where the answer has it.
    item: Option<&'r StoredItem>,
    retry_after_ms: Option<u64>,
    /// Why the operation failed. HybridRow has no place for it.
    message: Option<String>,
}

impl Results {
    pub fn new(format: ResultFormat) -> Results {
        let mut body = Vec::new();
        match format {
            ResultFormat::Json => body.push(b'['),
            ResultFormat::HybridRow { .. } => start(&mut body),
        }
        Results { body, format, failed: false, is_first: true }
    }

    pub fn success(&mut self, reply: &ItemReply, content: bool) {
        let status = items::status(reply.outcome);
        // A read whose condition names the current etag is no success of a batch: clients look for a body.
        self.failed |= status == StatusCode::NOT_MODIFIED;
        self.add(OneResult {
            status,
            charge_centi: reply.meta.charge_centi,
            etag: reply.etag,
            item: reply.item.as_ref().filter(|_| content && status != StatusCode::NOT_MODIFIED),
            ..OneResult::default()
        });
    }

    pub fn failure(&mut self, error: &Error, charge_centi: u64) {
        self.failed = true;
        let shape = errors::shape(error.kind());
        let message = matches!(self.format, ResultFormat::Json).then(|| errors::sentence(error));
        self.add(OneResult {
            status: shape.status,
            substatus: error.substatus().unwrap_or(shape.substatus),
            charge_centi,
            retry_after_ms: error.retry_after_ms(),
            message,
            ..OneResult::default()
        });
    }

    pub fn failed_dependency(&mut self, charge_centi: u64) {
        self.failed = true;
        self.add(OneResult { status: StatusCode::FAILED_DEPENDENCY, charge_centi, ..OneResult::default() });
    }

    fn add(&mut self, result: OneResult<'_>) {
        match self.format {
            ResultFormat::Json => self.add_json(&result),
            ResultFormat::HybridRow { has_binary_items } => self.add_row(&result, has_binary_items),
        }
        self.is_first = false;
    }

    fn add_json(&mut self, result: &OneResult<'_>) {
        if !self.is_first {
            self.push(",");
        }
        self.push(&format!("{{\"statusCode\":{}", result.status.as_u16()));
        if result.substatus != 0 {
            self.push(&format!(",\"subStatusCode\":{}", result.substatus));
        }
        self.push(",\"requestCharge\":");
        push_charge(&mut self.body, result.charge_centi);
        if let Some(etag) = result.etag {
            self.push(&format!(",\"eTag\":\"\\\"{etag}\\\"\""));
        }
        if let Some(item) = result.item {
            self.push(",\"resourceBody\":");
            item.write_json(&mut self.body);
        }
        if let Some(milliseconds) = result.retry_after_ms {
            self.push(&format!(",\"retryAfterMilliseconds\":{milliseconds}"));
        }
        if let Some(message) = &result.message {
            let message = serde_json::to_string(message).expect("text has a JSON form");
            self.push(&format!(",\"message\":{message}"));
        }
        self.push("}");
    }

    fn add_row(&mut self, result: &OneResult<'_>, is_binary: bool) {
        let etag = result.etag.map(|etag| format!("\"{etag}\""));
        let content = result.item.map(|item| {
            let mut content = Vec::with_capacity(item.json_size_bytes());
            match is_binary {
                true => item.view().write_binary(&mut content),
                false => item.write_json(&mut content),
            }
            content
        });
        let substatus_code = i32::try_from(result.substatus).expect("substatus numbers have five digits");
        let row = OperationResult {
            status_code: result.status.as_u16().into(),
            substatus_code,
            etag: etag.as_deref(),
            resource_body: content.as_deref(),
            retry_after_milliseconds: result.retry_after_ms.map(|wait| wait.try_into().unwrap_or(u32::MAX)),
            request_charge: Some(result.charge_centi as f64 / 100.0),
        };
        write_result(&mut self.body, &row);
    }

    fn push(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }

    pub fn finish(mut self, meta: ReplyMeta, container: &ContainerHandle) -> Reply {
        if self.format == ResultFormat::Json {
            self.push("]");
        }
        Reply {
            status: if self.failed { StatusCode::MULTI_STATUS } else { StatusCode::OK },
            meta,
            container: Some(container.clone()),
            body: Some(self.body.into()),
            is_bytes: self.format != ResultFormat::Json,
            ..Reply::default()
        }
    }
}
