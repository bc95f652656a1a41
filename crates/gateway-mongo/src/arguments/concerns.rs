//! Read and write concerns, checked for form. There is one copy, and an acknowledged write is durable, so the server meets most concerns
//! without further work.

use shardlake_mql::{Document, Value};

use super::fields::{Arguments, Field, optional, wrong_type};
use crate::errors::{CommandError, Result, code, error, fail};
use shardlake_mql::Types;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLevel {
    Local,
    Available,
    Majority,
    Linearizable,
    Snapshot,
}

impl ReadLevel {
    pub fn name(self) -> &'static str {
        match self {
            ReadLevel::Local => "local",
            ReadLevel::Available => "available",
            ReadLevel::Majority => "majority",
            ReadLevel::Linearizable => "linearizable",
            ReadLevel::Snapshot => "snapshot",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadConcern {
    pub level: Option<ReadLevel>,
    /// Seconds and counter.
    pub after_cluster_time: Option<(u32, u32)>,
}

impl ReadConcern {
    pub fn parse(document: &Document) -> Result<ReadConcern> {
        const FIELDS: &[Field] = &[
            optional("level", Types::STRING),
            optional("afterClusterTime", Types::TIMESTAMP),
            optional("afterOpTime", Types::OBJECT),
            optional("atClusterTime", Types::TIMESTAMP),
            optional("allowTransactionTableSnapshot", Types::BOOL_ONLY),
            optional("waitLastStableRecoveryTimestamp", Types::BOOL_ONLY),
            optional("provenance", Types::STRING),
        ];
        let arguments = Arguments::of_document("readConcern", document, FIELDS)?;
        for name in ["afterClusterTime", "atClusterTime"] {
            if let Some(value @ Value::Null) = document.get(name) {
                return Err(wrong_type(&format!("readConcern.{name}"), value, Types::TIMESTAMP));
            }
        }
        let after_cluster_time = match arguments.given("afterClusterTime") {
            Some(Value::Timestamp(seconds, counter)) => Some((*seconds, *counter)),
            _ => None,
        };
        check_provenance(&arguments, "readConcern")?;
        let level = arguments.string("level").map(read_level).transpose()?;
        if after_cluster_time == Some((0, 0)) {
            fail!(code::INVALID_OPTIONS, "afterClusterTime cannot be a null timestamp");
        }
        if let Some(Value::Timestamp(0, _)) = arguments.given("atClusterTime") {
            fail!(code::INVALID_OPTIONS, "atClusterTime cannot be a null timestamp");
        }
        if arguments.given("atClusterTime").is_some() && level != Some(ReadLevel::Snapshot) {
            fail!(code::INVALID_OPTIONS, "atClusterTime is for the read concern level snapshot only");
        }
        Ok(ReadConcern { level, after_cluster_time })
    }
}

/// Checks the field `provenance`, which has no effect.
fn check_provenance(arguments: &Arguments<'_>, concern: &str) -> Result<()> {
    const NAMES: &[&str] = &[
        "clientSupplied",
        "implicitDefault",
        "customDefault",
        "getLastErrorDefaults",
        "internalWriteDefault",
    ];
    match arguments.string("provenance") {
        Some(name) if !NAMES.contains(&name) => Err(error!(
            code::BAD_VALUE,
            "Enumeration value '{name}' for field '{concern}.provenance' is not a valid value."
        )),
        _ => Ok(()),
    }
}

fn read_level(name: &str) -> Result<ReadLevel> {
    use ReadLevel::{Available, Linearizable, Local, Majority, Snapshot};
    let levels = [Local, Available, Majority, Linearizable, Snapshot];
    let found = levels.into_iter().find(|level| level.name() == name);
    found.ok_or_else(|| {
        error!(
            code::BAD_VALUE,
            "Enumeration value '{name}' for field 'readConcern.level' is not a valid value."
        )
    })
}

/// Servers that must have a write before it is acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub enum Acknowledgement {
    /// `w: 0`: the client wants no result.
    Nobody,
    /// A number of servers.
    Servers(u32),
    Majority,
    /// A name, or a document of tags. No configuration has them.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct WriteConcern {
    pub acknowledgement: Acknowledgement,
    pub is_journaled: bool,
}

impl WriteConcern {
    pub fn parse(document: &Document) -> Result<WriteConcern> {
        const FIELDS: &[Field] = &[
            optional("w", Types::ANY),
            optional("j", Types::BOOL),
            optional("wtimeout", Types::ANY),
            optional("fsync", Types::BOOL),
            optional("wElectionId", Types::ANY),
            optional("wOpTime", Types::ANY),
            optional("getLastError", Types::ANY),
            optional("provenance", Types::STRING),
        ];
        let arguments = Arguments::of_document("writeConcern", document, FIELDS)?;
        check_provenance(&arguments, "writeConcern")?;
        if arguments.i64("wtimeout").is_some_and(|time| time > i64::from(i32::MAX)) {
            fail!(code::FAILED_TO_PARSE, "wtimeout has to be less than 2^31 milliseconds");
        }
        if arguments.given("w").is_some_and(Value::is_nan) {
            fail!(
                code::FAILED_TO_PARSE,
                "w has to be a non-negative number and not greater than 50, not NaN"
            );
        }
        let is_journaled = arguments.bool("j").unwrap_or(false);
        let acknowledgement = arguments.given("w").map_or(Ok(Acknowledgement::Majority), acknowledgement)?;
        Ok(WriteConcern { acknowledgement, is_journaled })
    }

    /// Whether the client wants no result.
    pub fn is_unacknowledged(&self) -> bool {
        self.acknowledgement == Acknowledgement::Nobody && !self.is_journaled
    }

    /// The write concern error of a completed write that asked for more servers than hold it.
    pub fn unsatisfied(&self) -> Option<CommandError> {
        match &self.acknowledgement {
            Acknowledgement::Servers(2..) => {
                Some(error!(code::UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes"))
            }
            Acknowledgement::Unknown(name) => {
                Some(error!(code::UNKNOWN_WRITE_CONCERN, "No write concern mode named '{name}' found"))
            }
            _ => None,
        }
    }
}

fn acknowledgement(value: &Value) -> Result<Acknowledgement> {
    const SERVERS_MAX: i64 = 50;
    match value {
        Value::String(name) if **name == *"majority" => Ok(Acknowledgement::Majority),
        Value::String(name) => Ok(Acknowledgement::Unknown(name.to_string())),
        Value::Document(tags) if tags.is_empty() => {
            Err(error!(code::FAILED_TO_PARSE, "tagged write concern requires tags"))
        }
        Value::Document(tags) if tags.iter().any(|(_, count)| !count.is_number()) => {
            Err(error!(code::FAILED_TO_PARSE, "tags of a write concern only accept numeric values"))
        }
        Value::Document(tags) => {
            let first = tags.first().map(|(name, _)| name.to_string());
            Ok(Acknowledgement::Unknown(first.unwrap_or_default()))
        }
        number if number.is_number() => match super::fields::truncated(number) {
            Some(0) => Ok(Acknowledgement::Nobody),
            Some(count @ 1..=SERVERS_MAX) => Ok(Acknowledgement::Servers(count as u32)),
            _ => Err(error!(
                code::FAILED_TO_PARSE,
                "w has to be a non-negative number and not greater than {SERVERS_MAX}"
            )),
        },
        _ => Err(error!(code::FAILED_TO_PARSE, "w has to be a number, string, or object")),
    }
}
