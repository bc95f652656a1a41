//! Capped collections: the options that make one, `convertToCapped`, `cloneCollectionAsCapped`, and cursors at their end.

use bytes::Bytes;
use futures::future::BoxFuture;
use shardlake_account::collections::{
    self, CappedChange, Find, Found, Namespace, RESULT_BYTES_MAX, Request, Tail, TailRoom, capped_options,
    too_large,
};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;

use super::common::{bytes_of, check_created};
use crate::arguments::{Arguments, Field, Types, optional, required, truncated};
use crate::call::{Call, CursorOptions};
use crate::cursors::{Batch, BatchSource, Wants};
use crate::errors::{Result, code, fail};
use crate::reply::{CursorReply, Reply};

const PETABYTE: i64 = 1 << 50;
const MAX_BELOW: i64 = 1 << 31;

/// The options of a collection that is to be capped; `None` for another one.
pub fn options_of(arguments: &Arguments<'_>) -> Result<Option<Document>> {
    if arguments.bool("capped") != Some(true) {
        for option in ["size", "max"] {
            if arguments.given(option).is_some() {
                fail!(code::INVALID_OPTIONS, "the '{option}' field requires that capped is true");
            }
        }
        return Ok(None);
    }
    let Some(size) = arguments.i64("size") else {
        fail!(code::INVALID_OPTIONS, "the 'capped' field requires the 'size' field to be also set");
    };
    check_size("create.size", size)?;
    let max = arguments.i64("max");
    max.map_or(Ok(()), |max| check_max("create.max", max))?;
    const OTHERS: [(&str, i32); 5] = [
        ("viewOn", code::INVALID_OPTIONS),
        ("shardKey", code::INVALID_OPTIONS),
        ("timeseries", code::INVALID_OPTIONS),
        ("clusteredIndex", 6_049_200),
        ("encryptedFields", 6_367_301),
    ];
    if let Some((other, code)) = OTHERS.into_iter().find(|(other, _)| arguments.given(other).is_some()) {
        fail!(code, "'capped' is not allowed together with '{other}'");
    }
    Ok(Some(capped_options(size, max)))
}

fn check_size(field: &str, size: i64) -> Result<()> {
    if size < 1 {
        fail!(code::BAD_VALUE, "BSON field '{field}' value must be >= 1, actual value '{size}'");
    }
    if size > PETABYTE {
        fail!(code::BAD_VALUE, "BSON field '{field}' value must be <= {PETABYTE}, actual value '{size}'");
    }
    Ok(())
}

fn check_max(field: &str, max: i64) -> Result<()> {
    if max >= MAX_BELOW {
        fail!(code::BAD_VALUE, "BSON field '{field}' value must be < {MAX_BELOW}, actual value '{max}'");
    }
    Ok(())
}

/// The change that a `collMod` requests; `None` if it requests none.
pub fn change_of(arguments: &Arguments<'_>) -> Result<Option<CappedChange>> {
    let change = CappedChange { size: arguments.i64("cappedSize"), max: arguments.i64("cappedMax") };
    change.size.map_or(Ok(()), |size| check_size("collMod.cappedSize", size))?;
    change.max.map_or(Ok(()), |max| check_max("collMod.cappedMax", max))?;
    Ok((change.size.is_some() || change.max.is_some()).then_some(change))
}

pub async fn convert_to_capped(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let size = size_of(call, &[])?;
    collections::convert_to_capped(call.collections(), &call.request(), &namespace, size).await?;
    Ok(Reply::ok())
}

pub async fn clone_as_capped(call: &Call) -> Result<Reply> {
    const TARGET: Field = required("toCollection", Types::STRING);
    let from = call.namespace()?;
    let size = size_of(call, &[TARGET])?;
    let to = call.body.get("toCollection").and_then(Value::as_str).unwrap_or_default();
    crate::arguments::check_collection(call.database(), to)?;
    let to = Namespace::new(call.database(), to);
    check_created(&to)?;
    collections::clone_as_capped(call.collections(), &call.request(), &from, &to, size).await?;
    Ok(Reply::ok())
}

/// The field `size` of a command, whose further fields are `own`.
fn size_of(call: &Call, own: &[Field]) -> Result<i64> {
    let fields = [own, &[required("size", Types::NUMBER), optional("temp", Types::BOOL)]].concat();
    call.arguments(&fields)?;
    let size = call.body.get("size").and_then(truncated).unwrap_or_default();
    if size < 1 {
        fail!(code::INVALID_OPTIONS, "Capped collection size must be greater than zero");
    }
    check_size(&format!("{}.size", call.name), size)?;
    Ok(size)
}

/// Refuses options that a tailable cursor does not support.
pub fn check_tailable(arguments: &Arguments<'_>) -> Result<()> {
    let is = |name: &str| arguments.bool(name) == Some(true);
    if is("awaitData") && !is("tailable") {
        fail!(code::FAILED_TO_PARSE, "Cannot set 'awaitData' without also setting 'tailable'");
    }
    if !is("tailable") {
        return Ok(());
    }
    let natural =
        |sort: &Document| sort.len() == 1 && sort.get("$natural").and_then(Value::to_f64) == Some(1.0);
    if arguments.document("sort").is_some_and(|sort| !sort.is_empty() && !natural(sort)) {
        fail!(code::BAD_VALUE, "cannot use tailable option with a sort other than {{$natural: 1}}");
    }
    if is("singleBatch") {
        fail!(code::BAD_VALUE, "cannot use tailable option with the 'singleBatch' option");
    }
    Ok(())
}

/// Opens a cursor that stays open at the end of a capped collection.
pub async fn tail(
    call: &Call,
    namespace: Namespace,
    find: Find,
    (awaits, options): (bool, CursorOptions),
) -> Result<Reply> {
    let collection = match call.collections().find_name(&namespace)? {
        Found::Nothing => {
            let reply = CursorReply {
                id: 0,
                namespace: namespace.to_string(),
                is_first: true,
                documents: Vec::new(),
                resume_token: None,
            };
            return Ok(Reply { fields: Document::new(), cursor: Some(reply) });
        }
        Found::View(_) => fail!(168, "Option tailable not supported in aggregation."),
        Found::Collection(collection) => collection,
    };
    if !collection.meta.is_capped() {
        fail!(code::BAD_VALUE, "error processing query: tailable cursor requested on non capped collection");
    }
    if call.collections().is_in_transaction() {
        fail!(263, "tailable cursors are not allowed in transactions");
    }
    let tail = Tail::new(call.collections(), &collection, find);
    let source = TailSource { tail, awaits, clock: call.clock() };
    call.open_cursor(namespace.to_string(), Box::new(source), options).await
}

struct TailSource {
    tail: Tail,
    awaits: bool,
    clock: Clock,
}

impl BatchSource for TailSource {
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
        Box::pin(async move {
            let request =
                Request::charged_to(wants.context.clone(), 1, wants.charged.clone(), self.clock.clone())
                    .ending_with(wants.end.clone());
            let room = TailRoom {
                documents_max: wants.documents_max.map_or(usize::MAX, |max| max as usize),
                size_bytes_max: wants.size_bytes_max,
                wait: wants.wait,
            };
            let check = |documents: &[Value]| {
                let size = documents.iter().map(Value::size).find(|size| *size > RESULT_BYTES_MAX);
                size.map_or(Ok(()), |size| Err(too_large(size)))
            };
            let batch = self.tail.next(&request, room, check).await?;
            let documents: Vec<Bytes> = batch.documents.iter().map(bytes_of).collect();
            Ok(Batch { documents, is_last: batch.is_last, resume_token: None })
        })
    }

    fn waits(&self) -> bool {
        self.awaits
    }
}
