//! Operations of a batch or bulk request.

use crate::Malformed;
use crate::record::{Records, write_record};
use crate::row::{Layout, Value, set, set_text, text, write_sparse};

const LAYOUT: Layout<5> = Layout { schema: 0x7fe1_5470 };

/// The number of items among the resource types.
const ITEM: i32 = 2;

const INDEXING_DIRECTIVE: u32 = 8;
const IF_MATCH: u32 = 9;
const IF_NONE_MATCH: u32 = 10;
const TIME_TO_LIVE: u32 = 11;
const MINIMAL_RETURN: u32 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Create,
    Patch,
    Read,
    Delete,
    Replace,
    Upsert,
}

/// One operation, as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'b> {
    pub kind: OperationKind,
    /// The JSON text of the partition key. Only bulk requests name one for each operation.
    pub partition_key: Option<&'b str>,
    /// The hash of the partition key, which clients within the service send.
    pub effective_partition_key: Option<&'b [u8]>,
    pub id: Option<&'b str>,
    /// An id of bytes, which clients within the service send.
    pub binary_id: Option<&'b [u8]>,
    /// The item or the patch, as JSON text or Cosmos binary JSON.
    pub resource_body: Option<&'b [u8]>,
    pub indexing_directive: Option<&'b str>,
    pub if_match: Option<&'b str>,
    pub if_none_match: Option<&'b str>,
    pub time_to_live_in_seconds: Option<i32>,
    pub minimal_return_preference: Option<bool>,
}

/// The operations of a body, read one by one. It ends after the first error.
#[derive(Debug, Clone)]
pub struct Operations<'b> {
    records: Records<'b>,
}

/// The operations of a request. The error is that of the segment row.
pub fn operations_in(body: &[u8]) -> Result<Operations<'_>, Malformed> {
    Records::new(body).map(|records| Operations { records })
}

impl<'b> Iterator for Operations<'b> {
    type Item = Result<Operation<'b>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next().map(|row| Operation::read(row?))
    }
}

impl OperationKind {
    fn of(number: i32) -> Result<OperationKind, Malformed> {
        Ok(match number {
            0 => OperationKind::Create,
            1 => OperationKind::Patch,
            2 => OperationKind::Read,
            4 => OperationKind::Delete,
            5 => OperationKind::Replace,
            20 => OperationKind::Upsert,
            other => return Err(Malformed::UnknownOperation(other)),
        })
    }

    fn number(self) -> i32 {
        match self {
            OperationKind::Create => 0,
            OperationKind::Patch => 1,
            OperationKind::Read => 2,
            OperationKind::Delete => 4,
            OperationKind::Replace => 5,
            OperationKind::Upsert => 20,
        }
    }
}

impl<'b> Operation<'b> {
    pub fn new(kind: OperationKind) -> Operation<'b> {
        Operation {
            kind,
            partition_key: None,
            effective_partition_key: None,
            id: None,
            binary_id: None,
            resource_body: None,
            indexing_directive: None,
            if_match: None,
            if_none_match: None,
            time_to_live_in_seconds: None,
            minimal_return_preference: None,
        }
    }

    fn read(row: &'b [u8]) -> Result<Operation<'b>, Malformed> {
        let mut row = LAYOUT.read(row)?;
        let [kind, resource] = row.fixed;
        match resource {
            Some(ITEM) => {}
            Some(other) => return Err(Malformed::UnknownResource(other)),
            None => return Err(Malformed::Missing("resourceType")),
        }
        let kind = OperationKind::of(kind.ok_or(Malformed::Missing("operationType"))?)?;
        let [partition_key, effective_partition_key, id, binary_id, resource_body] = row.variable;
        let mut operation = Operation {
            partition_key: partition_key.map(|bytes| text(bytes, "partitionKey")).transpose()?,
            effective_partition_key,
            id: id.map(|bytes| text(bytes, "id")).transpose()?,
            binary_id,
            resource_body,
            ..Operation::new(kind)
        };
        while let Some((field, value)) = row.next_sparse()? {
            operation.set(field, value)?;
        }
        Ok(operation)
    }

    fn set(&mut self, field: u32, value: Value<'b>) -> Result<(), Malformed> {
        match field {
            INDEXING_DIRECTIVE => set_text(&mut self.indexing_directive, "indexingDirective", value),
            IF_MATCH => set_text(&mut self.if_match, "ifMatch", value),
            IF_NONE_MATCH => set_text(&mut self.if_none_match, "ifNoneMatch", value),
            TIME_TO_LIVE => {
                set(&mut self.time_to_live_in_seconds, "timeToLiveInSeconds", value, Value::as_int32)
            }
            MINIMAL_RETURN => {
                set(&mut self.minimal_return_preference, "minimalReturnPreference", value, Value::as_bool)
            }
            other => Err(Malformed::UnknownField(other)),
        }
    }
}

/// Adds an operation to a body that [`start`](crate::start) has begun.
pub fn write_operation(out: &mut Vec<u8>, operation: &Operation<'_>) {
    write_record(out, |out| {
        let variable = [
            operation.partition_key.map(str::as_bytes),
            operation.effective_partition_key,
            operation.id.map(str::as_bytes),
            operation.binary_id,
            operation.resource_body,
        ];
        LAYOUT.write(out, [Some(operation.kind.number()), Some(ITEM)], variable);
        let sparse = [
            (INDEXING_DIRECTIVE, operation.indexing_directive.map(|text| Value::Text(text.as_bytes()))),
            (IF_MATCH, operation.if_match.map(|text| Value::Text(text.as_bytes()))),
            (IF_NONE_MATCH, operation.if_none_match.map(|text| Value::Text(text.as_bytes()))),
            (TIME_TO_LIVE, operation.time_to_live_in_seconds.map(Value::Int32)),
            (MINIMAL_RETURN, operation.minimal_return_preference.map(Value::Bool)),
        ];
        for (field, value) in sparse {
            if let Some(value) = value {
                write_sparse(out, field, value);
            }
        }
    });
}
