//! T-SQL's types as types that DataFusion plans, and casts to them.

use sqlparser::ast::{
    CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, TimezoneInfo, Value,
};
use sqlparser::tokenizer::Location;

use crate::catalog::Kind;
use crate::error::{Checked, refuse};

/// Characters that T-SQL keeps where a text type has no length.
const TEXT_LENGTH_DEFAULT: u64 = 30;

/// A type, and the change of the value that a cast to it makes in addition.
pub(crate) struct Target {
    pub data_type: DataType,
    pub cut: Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    None,
    /// To at most so many characters.
    Left(u64),
    /// To exactly so many characters, with blanks behind shorter texts.
    Pad(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// CAST, which all dialects have.
    Cast,
    /// CONVERT, whose defaults are T-SQL's.
    Convert,
    /// A column of OPENROWSET or OPENJSON: its length is a bound, not a cut.
    Column,
}

pub(crate) fn target(data_type: &DataType, origin: Origin, at: Location) -> Checked<Target> {
    let plain = |data_type| Ok(Target { data_type, cut: Cut::None });
    match data_type {
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Ok(text(length.as_ref(), origin == Origin::Convert, origin, Cut::Left))
        }
        DataType::Nvarchar(length) => Ok(text(length.as_ref(), origin != Origin::Column, origin, Cut::Left)),
        DataType::Char(length) | DataType::Character(length) => {
            Ok(text(length.as_ref(), false, origin, Cut::Pad))
        }
        DataType::Text | DataType::String(_) | DataType::JSON => plain(DataType::Varchar(None)),
        DataType::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => plain(DataType::Real),
        DataType::Float(_) | DataType::Float8 | DataType::Float64 | DataType::DoublePrecision => {
            plain(DataType::Double(ExactNumberInfo::None))
        }
        DataType::TinyInt(_) => plain(DataType::SmallInt(None)),
        DataType::Bit(_) => plain(DataType::Boolean),
        DataType::Decimal(ExactNumberInfo::None) | DataType::Numeric(ExactNumberInfo::None)
            if origin != Origin::Cast =>
        {
            plain(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(18, 0)))
        }
        DataType::Datetime(_) => plain(timestamp()),
        DataType::Custom(name, arguments) => custom(name, arguments, data_type, origin, at),
        DataType::Varbinary(_) | DataType::Binary(_) | DataType::Uuid => refuse(
            at,
            format!("the type {data_type} is not translated"),
            "documents hold such values as texts: compare with the text",
        ),
        data_type => plain(data_type.clone()),
    }
}

fn custom(
    name: &ObjectName,
    arguments: &[String],
    data_type: &DataType,
    origin: Origin,
    at: Location,
) -> Checked<Target> {
    let number = arguments.first().and_then(|argument| argument.parse::<u64>().ok());
    let length = match (number, arguments.first()) {
        (Some(length), _) => Some(CharacterLength::IntegerLength { length, unit: None }),
        (None, Some(_)) => Some(CharacterLength::Max),
        (None, None) => None,
    };
    let plain = |data_type| Ok(Target { data_type, cut: Cut::None });
    match name.to_string().to_ascii_uppercase().as_str() {
        "DATETIME2" | "SMALLDATETIME" | "DATETIME" => plain(timestamp()),
        "NCHAR" => Ok(text(length.as_ref(), false, origin, Cut::Pad)),
        "NVARCHAR" | "VARCHAR" => Ok(text(length.as_ref(), origin != Origin::Column, origin, Cut::Left)),
        "NTEXT" | "SYSNAME" => plain(DataType::Varchar(None)),
        "MONEY" => plain(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(19, 4))),
        "SMALLMONEY" => plain(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(10, 4))),
        "DATETIMEOFFSET" => refuse(
            at,
            "the type DATETIMEOFFSET is not translated",
            "write TIMESTAMP for the time in UTC, which keeps no offset",
        ),
        _ => refuse(
            at,
            format!("the type {data_type} is unknown"),
            "types are BOOLEAN, BIGINT, INT, SMALLINT, DOUBLE, REAL, DECIMAL(p, s), VARCHAR, DATE, TIME and TIMESTAMP",
        ),
    }
}

fn text(length: Option<&CharacterLength>, has_default: bool, origin: Origin, cut: fn(u64) -> Cut) -> Target {
    let length = match length {
        Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
        Some(CharacterLength::Max) => None,
        None => Some(TEXT_LENGTH_DEFAULT).filter(|_| has_default),
    };
    let cut = length.filter(|_| origin != Origin::Column).map_or(Cut::None, cut);
    Target { data_type: DataType::Varchar(None), cut }
}

pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(None, TimezoneInfo::None)
}

/// The type that a cast results in, as far as the translation depends on it.
pub(crate) fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Varchar(_)
        | DataType::Text
        | DataType::Char(_)
        | DataType::Character(_)
        | DataType::CharacterVarying(_) => Kind::Text,
        DataType::BigInt(_)
        | DataType::Int(_)
        | DataType::Integer(_)
        | DataType::SmallInt(_)
        | DataType::Int8(_)
        | DataType::Int64 => Kind::Long,
        DataType::Double(_) | DataType::Real => Kind::Double,
        DataType::Boolean | DataType::Bool => Kind::Boolean,
        _ => Kind::Other,
    }
}

pub(crate) fn cast(expr: Expr, target: Target, kind: CastKind) -> Expr {
    let cast =
        Expr::Cast { kind, expr: Box::new(expr), data_type: target.data_type, array: false, format: None };
    match target.cut {
        Cut::None => cast,
        Cut::Left(length) => call("left", vec![cast, number(length)]),
        Cut::Pad(length) => call("rpad", vec![cast, number(length)]),
    }
}

/// A value of a column as the declared type. Without a need nothing is cast.
pub(crate) fn cast_column(expr: Expr, data_type: &DataType, kind: &Kind, at: Location) -> Checked<Expr> {
    let target = target(data_type, Origin::Column, at)?;
    let wanted = kind_of(&target.data_type);
    let is_nested = matches!(kind, Kind::List(_) | Kind::Struct(_));
    let is_same = match (&wanted, kind) {
        (Kind::Text, Kind::Text) | (Kind::Boolean, Kind::Boolean) => true,
        (Kind::Long, Kind::Long) => matches!(target.data_type, DataType::BigInt(_)),
        (Kind::Double, Kind::Double) => matches!(target.data_type, DataType::Double(_)),
        // A list or an object stays nested: OPENJSON and members read it as it is.
        (Kind::Text, _) => is_nested,
        _ => false,
    };
    if is_same {
        return Ok(expr);
    }
    if is_nested {
        return refuse(
            at,
            format!("a list or an object is no {data_type}"),
            "declare it as VARCHAR(MAX) and read its members",
        );
    }
    Ok(cast(expr, target, CastKind::Cast))
}

pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

pub(crate) fn number(number: u64) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

pub(crate) fn string(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}
