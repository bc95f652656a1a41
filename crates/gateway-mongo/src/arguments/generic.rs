//! Generic fields: those that every command may have besides its own.

use std::time::Duration;

use shardlake_mql::{Document, Str, Value};

use super::concerns::{ReadConcern, WriteConcern};
use super::fields::{Arguments, required, truncated, wrong_type};
use super::namespace;
use crate::errors::{CommandError, Result, code, error, fail};
use shardlake_mql::Types;

/// The id of a session, made by its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    pub fn document(self) -> Document {
        Document::one("id", Value::Binary(4, self.0.as_slice().into()))
    }

    /// Reads `{id: UUID}`.
    pub fn parse(context: &str, document: &Document) -> Result<SessionId> {
        let fields = [
            required("id", Types::BINARY),
            super::fields::optional("uid", Types::BINARY),
            super::fields::optional("txnNumber", Types::LONG),
            super::fields::optional("txnUUID", Types::BINARY),
        ];
        let arguments = Arguments::of_document(context, document, &fields)?;
        match arguments.given("id") {
            Some(Value::Binary(4, bytes)) => match <[u8; 16]>::try_from(&**bytes) {
                Ok(bytes) => Ok(SessionId(bytes)),
                Err(_) => Err(error!(
                    code::INVALID_UUID,
                    "uuid must be a 16-byte binary field with UUID (4) subtype"
                )),
            },
            _ => Err(error!(
                code::TYPE_MISMATCH,
                "BSON field '{context}.id' is the wrong binData type, expected type 'UUID'"
            )),
        }
    }
}

/// Position of a command in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionPart {
    First,
    Later,
}

/// The fields that [`NAMES`] lists, read and checked.
#[derive(Debug, Clone)]
pub struct Generic {
    pub database: Str,
    pub session: Option<SessionId>,
    pub transaction_number: Option<i64>,
    pub transaction_part: Option<TransactionPart>,
    pub time_max: Option<Duration>,
    pub is_api_strict: bool,
    pub read_concern: Option<ReadConcern>,
    pub write_concern: Option<WriteConcern>,
}

impl Generic {
    pub fn parse(body: &Document) -> Result<Generic> {
        check_duplicates(body)?;
        let given =
            |name: &str| body.get(name).filter(|value| !matches!(value, Value::Null | Value::Undefined));
        let database = match body.get("$db") {
            None => fail!(code::MISSING_FIELD, "BSON field '$db' is missing but a required field"),
            Some(Value::String(text)) => text.clone(),
            Some(other) => return Err(wrong_type("$db", other, Types::STRING)),
        };
        namespace::check_database(&database)?;
        let session = match given("lsid") {
            None => None,
            Some(Value::Document(document)) => Some(SessionId::parse("lsid", document)?),
            Some(other) => return Err(wrong_type("lsid", other, Types::OBJECT)),
        };
        let transaction_number = match given("txnNumber") {
            None => None,
            Some(Value::Long(number)) => Some(*number),
            Some(other) => return Err(wrong_type("txnNumber", other, Types::LONG)),
        };
        Ok(Generic {
            database,
            session,
            transaction_number,
            transaction_part: transaction_part(given("autocommit"), given("startTransaction"))?,
            time_max: time_limit(body)?,
            is_api_strict: api(&given)?,
            read_concern: document(given("readConcern"), "readConcern")?
                .map(ReadConcern::parse)
                .transpose()?,
            write_concern: document(given("writeConcern"), "writeConcern")?
                .map(WriteConcern::parse)
                .transpose()?,
        })
    }
}

impl Generic {
    /// Checks that a command with a number has a session.
    pub fn check_session(&self) -> Result<()> {
        if self.transaction_number.is_some() && self.session.is_none() {
            fail!(code::INVALID_OPTIONS, "Transaction number requires a session ID to also be specified");
        }
        Ok(())
    }
}

const FEW_FIELDS: usize = 16;

/// Refuses repeated fields. Commands read fields by name, so none may occur twice.
fn check_duplicates(body: &Document) -> Result<()> {
    let repeated = match body.len() <= FEW_FIELDS {
        // Few names are compared without a list of them.
        true => {
            let is_repeated =
                |place: usize, name: &str| body.iter().take(place).any(|(own, _)| **own == *name);
            let mut fields = body.iter().enumerate();
            fields.find(|(place, (name, _))| is_repeated(*place, name)).map(|(_, (name, _))| &**name)
        }
        false => {
            let mut names: Vec<&str> = body.iter().map(|(name, _)| &**name).collect();
            names.sort_unstable();
            names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
        }
    };
    match repeated {
        Some(name) => Err(error!(code::DUPLICATE_FIELD, "BSON field '{name}' is a duplicate field")),
        None => Ok(()),
    }
}

fn document<'b>(value: Option<&'b Value>, name: &str) -> Result<Option<&'b Document>> {
    match value {
        None => Ok(None),
        Some(Value::Document(document)) => Ok(Some(document)),
        Some(other) => Err(wrong_type(name, other, Types::OBJECT)),
    }
}

fn transaction_part(autocommit: Option<&Value>, start: Option<&Value>) -> Result<Option<TransactionPart>> {
    for (name, value) in [("autocommit", autocommit), ("startTransaction", start)] {
        if let Some(value) = value
            && !Types::BOOL_ONLY.has(value)
        {
            return Err(wrong_type(name, value, Types::BOOL_ONLY));
        }
    }
    let is_start = start.is_some_and(Value::is_true);
    match autocommit.map(Value::is_true) {
        None if start.is_some() => Err(error!(
            code::INVALID_OPTIONS,
            "'startTransaction' field requires 'autocommit' field to also be specified"
        )),
        None => Ok(None),
        Some(true) => Err(error!(code::INVALID_OPTIONS, "Specifying autocommit=true is not allowed.")),
        Some(false) if start.is_some() && !is_start => {
            Err(error!(code::INVALID_OPTIONS, "Specifying startTransaction=false is not allowed."))
        }
        Some(false) if is_start => Ok(Some(TransactionPart::First)),
        Some(false) => Ok(Some(TransactionPart::Later)),
    }
}

/// Time limit of the command. `find` parses it differently, with one code for every error.
fn time_limit(body: &Document) -> Result<Option<Duration>> {
    let is_find = body.first().is_some_and(|(name, _)| &**name == "find");
    let found = match body.get("maxTimeMS") {
        None | Some(Value::Undefined) => return Ok(None),
        Some(Value::Null) if !is_find => return Ok(None),
        Some(value) => time_max(value),
    };
    found.map_err(|error| match is_find {
        true => error!(code::BAD_VALUE, "{}", error.message()),
        false => error,
    })
}

/// `None` for no limit.
fn time_max(value: &Value) -> Result<Option<Duration>> {
    milliseconds("maxTimeMS", value).map(|time| (!time.is_zero()).then_some(time))
}

/// A whole number of milliseconds from 0 to 2^31-1.
fn milliseconds(name: &str, value: &Value) -> Result<Duration> {
    if !value.is_number() {
        return Err(wrong_type(name, value, Types::NUMBER));
    }
    let number = value.to_f64().unwrap_or(f64::NAN);
    let is_whole = value.to_i64_exact().is_some() || (number.is_finite() && number.fract() == 0.0);
    if !is_whole || is_huge_decimal(value) {
        fail!(code::FAILED_TO_PARSE, "{name} has to be a whole number of milliseconds");
    }
    let number = truncated(value).unwrap_or(-1);
    match u64::try_from(number) {
        Ok(number) if number <= i32::MAX as u64 => Ok(Duration::from_millis(number)),
        _ => Err(error!(code::BAD_VALUE, "{number} value for {name} is out of range [0, {}]", i32::MAX)),
    }
}

/// The reference reads a decimal as a 64-bit integer, and treats a larger one as a fraction.
fn is_huge_decimal(value: &Value) -> bool {
    matches!(value, Value::Decimal(_)) && value.to_i64_exact().is_none()
}

/// Whether the client allows the stable API alone.
fn api<'b>(given: &impl Fn(&str) -> Option<&'b Value>) -> Result<bool> {
    let flag = |name: &str| match given(name) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(wrong_type(name, other, Types::BOOL_ONLY)),
    };
    let version = match given("apiVersion") {
        None => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => return Err(wrong_type("apiVersion", other, Types::STRING)),
    };
    let (strict, deprecation) = (flag("apiStrict")?, flag("apiDeprecationErrors")?);
    match version {
        Some(version) if **version != *"1" => {
            Err(CommandError::new(code::API_VERSION, "API version must be \"1\""))
        }
        None if strict.is_some() || deprecation.is_some() => Err(error!(
            code::API_OPTIONS_WITHOUT_VERSION,
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion"
        )),
        _ => Ok(strict.unwrap_or(false)),
    }
}
