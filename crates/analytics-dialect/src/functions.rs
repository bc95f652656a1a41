//! T-SQL's functions and operators as those that DataFusion plans, or refused by name.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, Spanned, Value,
};
use sqlparser::tokenizer::Location;

use crate::access::Typed;
use crate::catalog::Kind;
use crate::dates;
use crate::error::{Checked, quoted, refuse};
use crate::json_path;
use crate::literals::{integer_of, name_of, text_of};
use crate::resolver::Resolver;
use crate::types::{self, Origin, call, number, string};

/// Functions that other dialects have and that are not translated, with the form to write.
const REFUSED: &[(&str, &str)] = &[
    ("CHOOSE", "write CASE n WHEN 1 THEN … WHEN 2 THEN … END"),
    ("DATALENGTH", "write octet_length(text), which counts bytes in UTF-8"),
    ("DATENAME", "write to_char(CAST(text AS TIMESTAMP), '%B')"),
    ("EOMONTH", "write date_trunc('month', CAST(text AS TIMESTAMP)) + INTERVAL '1 month' - INTERVAL '1 day'"),
    ("EXPLODE_OUTER", "write FROM t LEFT JOIN UNNEST(t.list) AS x ON true"),
    ("FORMAT", "write to_char(value, '%Y-%m-%d')"),
    ("ISDATE", "write TRY_CAST(text AS TIMESTAMP) IS NOT NULL"),
    ("ISJSON", "nested values are columns: DESCRIBE lists them"),
    ("ISNUMERIC", "write TRY_CAST(text AS DOUBLE) IS NOT NULL"),
    ("JSON_MODIFY", "queries change nothing"),
    ("JSON_QUERY", "write the list or object as it is: column.member"),
    ("NEWID", "write uuid()"),
    ("OPENQUERY", "write the table itself: FROM database.container"),
    ("PARSE", "write CAST(text AS type)"),
    ("PATINDEX", "write strpos(text, part), or regexp_instr(text, pattern)"),
    ("QUOTENAME", "write '[' || text || ']'"),
    ("STR", "write CAST(number AS VARCHAR)"),
    ("STUFF", "write overlay(text PLACING other FROM start FOR length)"),
    ("SWITCHOFFSET", "write value AT TIME ZONE '+02:00'"),
    ("SYSDATETIMEOFFSET", "write now()"),
    ("TODATETIMEOFFSET", "write value AT TIME ZONE '+02:00'"),
    ("TRY_PARSE", "write TRY_CAST(text AS type)"),
];

/// T-SQL's names of functions that are otherwise alike.
const RENAMED: &[(&str, &str)] = &[
    ("APPROX_COUNT_DISTINCT", "approx_distinct"),
    ("CEILING", "CEIL"),
    ("COUNT_BIG", "count"),
    ("EXPLODE", "unnest"),
    ("REPLICATE", "repeat"),
    ("STDEV", "stddev"),
    ("STDEVP", "stddev_pop"),
    ("UNICODE", "ascii"),
    ("VAR", "var_samp"),
    ("VARP", "var_pop"),
];

/// Functions that are rewritten.
const OWN: &[&str] = &[
    "CHARINDEX",
    "DATEADD",
    "DATEDIFF",
    "DATEDIFF_BIG",
    "DATEPART",
    "DATETRUNC",
    "DATE_BUCKET",
    "DAY",
    "GETDATE",
    "GETUTCDATE",
    "IIF",
    "ISNULL",
    "JSON_VALUE",
    "LEN",
    "LOG",
    "MONTH",
    "SPACE",
    "SQUARE",
    "SYSDATETIME",
    "SYSUTCDATETIME",
    "YEAR",
];

/// Functions whose first argument is a part of a date.
const OF_PARTS: &[&str] =
    &["DATEADD", "DATEDIFF", "DATEDIFF_BIG", "DATEPART", "DATETRUNC", "DATENAME", "DATE_BUCKET"];

/// Parts of dates are words, not columns.
pub(crate) fn name_parts(function: &mut Function) -> Checked<()> {
    let is_of_part = name_of(function).is_some_and(|name| OF_PARTS.contains(&name.as_str()));
    if !is_of_part {
        return Ok(());
    }
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(part))) = list.args.first_mut()
        && let Expr::Identifier(name) = part
    {
        *part = Expr::Value(Value::SingleQuotedString(name.value.clone()).with_span(name.span));
    }
    Ok(())
}

/// Rewrites an expression whose parts are rewritten.
pub(crate) fn translate(resolver: &Resolver<'_>, expr: &mut Expr) -> Checked<()> {
    let at = expr.span().start;
    let translated = match expr {
        Expr::Function(function) => of_function(resolver, function, at)?,
        Expr::BinaryOp { op: BinaryOperator::Plus, .. } => plus(resolver, expr, at)?,
        Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => {
            no_sets(pattern, at)?;
            None
        }
        Expr::Convert { .. } => Some(convert(resolver, expr, at)?),
        Expr::Cast { kind, expr, data_type, array: false, format: None } => {
            let target = types::target(data_type, Origin::Cast, at)?;
            if resolver.is_tsql {
                has_one_text(resolver, expr, &target, at)?;
            }
            Some(types::cast(take(expr), target, kind.clone()))
        }
        Expr::Cast { .. } => {
            return refuse(at, "CAST … FORMAT is not translated", "write to_char(value, '%Y-%m-%d')");
        }
        Expr::Collate { expr, .. } => Some(take(expr)),
        _ => None,
    };
    if let Some(translated) = translated {
        *expr = translated;
    }
    Ok(())
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// Plain arguments, or none where the call has other parts.
fn arguments(function: &mut Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let is_plain = list.clauses.is_empty()
        && list.duplicate_treatment.is_none()
        && list.args.iter().all(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(_))));
    if !is_plain || function.over.is_some() || function.filter.is_some() {
        return None;
    }
    let args = std::mem::take(&mut list.args);
    let expr = |arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    args.into_iter().map(expr).collect()
}

fn of_function(resolver: &Resolver<'_>, function: &mut Function, at: Location) -> Checked<Option<Expr>> {
    let Some(name) = name_of(function) else {
        let name = &function.name;
        return refuse(
            at,
            format!("there is no function {name}"),
            "write the function's name alone, without a schema",
        );
    };
    if let Some((_, hint)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return refuse(at, format!("{name} is not translated"), *hint);
    }
    if let Some((_, right)) = RENAMED.iter().find(|(renamed, _)| *renamed == name) {
        function.name = ObjectName::from(vec![Ident::new(*right)]);
        return Ok(None);
    }
    if name == "AVG" && resolver.is_tsql {
        return of_average(resolver, function, at);
    }
    if name == "STRING_AGG" {
        // The planner orders the texts inside of the parentheses.
        let order = std::mem::take(&mut function.within_group);
        if let FunctionArguments::List(list) = &mut function.args
            && !order.is_empty()
        {
            list.clauses.push(FunctionArgumentClause::OrderBy(order));
        }
        return Ok(None);
    }
    if !OWN.contains(&name.as_str()) || (name == "LOG" && !resolver.is_tsql) {
        return Ok(None);
    }
    match arguments(function) {
        Some(args) => with_arguments(resolver, &name, &args, at).map(Some),
        None => wrong(&name, &format!("{name}(…) with plain arguments"), at),
    }
}

/// T-SQL's mean of integers is an integer.
fn of_average(resolver: &Resolver<'_>, function: &Function, at: Location) -> Checked<Option<Expr>> {
    if let FunctionArguments::List(list) = &function.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice()
        && resolver.kind_of(value) == Kind::Long
    {
        let value = quoted(value);
        return refuse(
            at,
            "AVG of integers is an integer in T-SQL, and a DOUBLE here",
            format!("write avg(CAST({value} AS FLOAT)), or sum({value}) / count({value}) for the integer"),
        );
    }
    Ok(None)
}

fn wrong<T>(name: &str, form: &str, at: Location) -> Checked<T> {
    refuse(at, format!("{name} has other arguments"), format!("write {form}"))
}

/// A function that T-SQL alone has, or has with another meaning.
fn with_arguments(resolver: &Resolver<'_>, name: &str, args: &[Expr], at: Location) -> Checked<Expr> {
    let wrong = |form: &str| wrong(name, form, at);
    let arg = |at: usize| args[at].clone();
    let translated = match (name, args.len()) {
        ("ISNULL", 2) => is_null(resolver, arg(0), arg(1), at)?,
        ("ISNULL", _) => return wrong("ISNULL(value, other)"),
        ("LEN", 1) => length(resolver, arg(0), at)?,
        ("LEN", _) => return wrong("LEN(text)"),
        ("GETUTCDATE" | "GETDATE" | "SYSUTCDATETIME" | "SYSDATETIME", 0) => {
            cast(call("now", Vec::new()), types::timestamp())
        }
        ("DATEADD", 3) => dates::add(&arg(0), &arg(1), arg(2), at)?,
        ("DATEADD", _) => return wrong("DATEADD(part, number, date)"),
        ("DATEDIFF" | "DATEDIFF_BIG", 3) => dates::difference(&arg(0), arg(1), arg(2), at)?,
        ("DATEDIFF" | "DATEDIFF_BIG", _) => return wrong("DATEDIFF(part, from, to)"),
        ("DATEPART", 2) => dates::part(&arg(0), arg(1), at)?,
        ("DATETRUNC", 2) => dates::truncated(&arg(0), arg(1), at)?,
        ("YEAR" | "MONTH" | "DAY", 1) => dates::part(&string(name.to_ascii_lowercase()), arg(0), at)?,
        ("CHARINDEX", 2) => call("strpos", vec![arg(1), arg(0)]),
        ("CHARINDEX", 3) => {
            return refuse(
                at,
                "CHARINDEX with a start is not translated",
                "write strpos(substr(text, start), part) + start - 1",
            );
        }
        ("JSON_VALUE", 2) => json_value(resolver, arg(0), &arg(1), at)?,
        ("JSON_VALUE", _) => return wrong("JSON_VALUE(column, '$.member')"),
        ("IIF", 3) => choice(arg(0), arg(1), arg(2)),
        ("IIF", _) => return wrong("IIF(condition, value, other)"),
        ("SPACE", 1) => call("repeat", vec![string(" "), arg(0)]),
        ("LOG", 1) => call("ln", vec![arg(0)]),
        ("LOG", 2) => call("log", vec![arg(1), arg(0)]),
        ("SQUARE", 1) => call(
            "power",
            vec![cast(arg(0), DataType::Double(sqlparser::ast::ExactNumberInfo::None)), number(2)],
        ),
        _ => return wrong(&format!("{name} with the arguments that T-SQL has")),
    };
    Ok(translated)
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn choice(condition: Expr, then: Expr, other: Expr) -> Expr {
    Expr::Case {
        case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: then }],
        else_result: Some(Box::new(other)),
    }
}

/// T-SQL gives the second value the type of the first, COALESCE the wider of both.
fn is_null(resolver: &Resolver<'_>, value: Expr, other: Expr, at: Location) -> Checked<Expr> {
    let (of_value, of_other) = (resolver.kind_of(&value), resolver.kind_of(&other));
    let is_same = !matches!(
        (&of_value, &of_other),
        (Kind::Long | Kind::Other, Kind::Double) | (Kind::Long | Kind::Double | Kind::Boolean, Kind::Text)
    );
    if !is_same {
        return refuse(
            at,
            format!("ISNULL would make {} the type of the first value", quoted(&other)),
            format!("write coalesce({}, {}), which keeps both", quoted(&value), quoted(&other)),
        );
    }
    Ok(call("coalesce", vec![value, other]))
}

/// T-SQL counts no blanks at the end.
fn length(resolver: &Resolver<'_>, value: Expr, at: Location) -> Checked<Expr> {
    match resolver.kind_of(&value) {
        Kind::Double | Kind::Boolean | Kind::List(_) | Kind::Struct(_) => refuse(
            at,
            format!("LEN of {} is not translated", quoted(&value)),
            "write LEN of a text, or cardinality(list)",
        ),
        Kind::Text | Kind::Other => Ok(call("character_length", vec![call("rtrim", vec![value])])),
        Kind::Long => Ok(call("character_length", vec![cast(value, DataType::Varchar(None))])),
    }
}

fn json_value(resolver: &Resolver<'_>, value: Expr, path: &Expr, at: Location) -> Checked<Expr> {
    let Some(path) = text_of(path) else {
        return refuse(at, "the path of JSON_VALUE is no text", "write JSON_VALUE(column, '$.member')");
    };
    let kind = resolver.kind_of(&value);
    if !matches!(kind, Kind::Struct(_) | Kind::List(_)) {
        return refuse(
            at,
            format!("{} is not known to be an object", quoted(&value)),
            "nested values are columns: write column.member",
        );
    }
    let found = Typed::new(value, kind).at(&json_path::parse(path, at)?, at)?;
    match found.kind {
        Kind::Text => Ok(found.expr),
        Kind::Long | Kind::Boolean => Ok(cast(found.expr, DataType::Varchar(None))),
        _ => refuse(
            at,
            format!("JSON_VALUE of {} has no one text", quoted(&found.expr)),
            format!("write {} as it is", quoted(&found.expr)),
        ),
    }
}

/// `+` joins texts in T-SQL.
fn plus(resolver: &Resolver<'_>, expr: &mut Expr, at: Location) -> Checked<Option<Expr>> {
    let Expr::BinaryOp { left, right, .. } = expr else { return Ok(None) };
    let kinds = (resolver.kind_of(left), resolver.kind_of(right));
    let is_text = match &kinds {
        (Kind::Text, Kind::Text) => true,
        (Kind::Text, Kind::Other) => is_no_number(left) && !is_interval(right),
        (Kind::Other, Kind::Text) => is_no_number(right) && !is_interval(left),
        (Kind::Text, _) | (_, Kind::Text) => false,
        _ => return Ok(None),
    };
    if is_interval(left) || is_interval(right) {
        return refuse(at, "a text is no date", "write CAST(text AS TIMESTAMP) + INTERVAL '1 day'");
    }
    if !is_text {
        return refuse(
            at,
            format!("'{} + {}' may add numbers or join texts", quoted(left), quoted(right)),
            format!(
                "write {} || {} for texts, or CAST(… AS DOUBLE) for numbers",
                quoted(left),
                quoted(right)
            ),
        );
    }
    let joined = Expr::BinaryOp {
        left: Box::new(take(left)),
        op: BinaryOperator::StringConcat,
        right: Box::new(take(right)),
    };
    Ok(Some(Expr::Nested(Box::new(joined))))
}

/// A text that T-SQL could not take for a number.
fn is_no_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_no_number(inner),
        Expr::BinaryOp { op: BinaryOperator::StringConcat, left, right } => {
            is_no_number(left) || is_no_number(right)
        }
        expr => {
            text_of(expr).is_some_and(|text| text.trim().parse::<f64>().is_err() && !text.trim().is_empty())
                || text_of(expr) == Some(" ")
        }
    }
}

fn is_interval(expr: &Expr) -> bool {
    matches!(expr, Expr::Interval(_))
}

/// T-SQL has sets of characters in LIKE, other dialects read the bracket as itself.
fn no_sets(pattern: &Expr, at: Location) -> Checked<()> {
    let has_set =
        text_of(pattern).is_some_and(|text| text.split_once('[').is_some_and(|(_, rest)| rest.contains(']')));
    match has_set {
        false => Ok(()),
        true => refuse(
            at,
            "brackets in LIKE are a set of characters in T-SQL, and themselves elsewhere",
            "write regexp_like(text, '^[a-c]') for a set, or strpos(text, '[') > 0 for the character",
        ),
    }
}

/// Dialects write some values as different texts: 1.0 and 1, true and 1.
fn has_one_text(resolver: &Resolver<'_>, value: &Expr, target: &types::Target, at: Location) -> Checked<()> {
    let is_text = types::kind_of(&target.data_type) == Kind::Text;
    match resolver.kind_of(value) {
        Kind::Double | Kind::Boolean if is_text => refuse(
            at,
            format!("{} has other texts in T-SQL", quoted(value)),
            "cast a number to DECIMAL(p, s) or BIGINT first, or use to_char; write IIF(value, '1', '0') for a truth",
        ),
        _ => Ok(()),
    }
}

fn convert(resolver: &Resolver<'_>, expr: &mut Expr, at: Location) -> Checked<Expr> {
    let Expr::Convert { is_try, expr, data_type: Some(data_type), styles, charset: None, .. } = expr else {
        return refuse(at, "CONVERT … USING is not translated", "texts are Unicode: leave it out");
    };
    let target = types::target(data_type, Origin::Convert, at)?;
    has_one_text(resolver, expr, &target, at)?;
    let is_date = matches!(target.data_type, DataType::Timestamp(..) | DataType::Date);
    let style = styles.first().map(integer_of);
    match style {
        None => {}
        // ISO 8601, which is the form of dates in documents.
        Some(Some(126 | 127)) if is_date => {}
        Some(Some(23)) if matches!(target.data_type, DataType::Date) => {}
        Some(_) => {
            return refuse(
                at,
                "this style of CONVERT is not translated",
                "write to_char(value, '%Y-%m-%d') for a text, or to_timestamp(text, '%d.%m.%Y') for a date",
            );
        }
    }
    let kind = if *is_try { CastKind::TryCast } else { CastKind::Cast };
    Ok(types::cast(take(expr), target, kind))
}
