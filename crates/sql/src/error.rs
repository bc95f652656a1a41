//! What can be wrong with a query, with the reference's codes, texts and places.
//!
//! [`SqlError::to_json`] prints the body that the reference answers with, which clients and SDK tests take apart.

use std::fmt::Write as _;

use shardlake_model::{ErrorKind, LanguageLimits};

const LIMITS: LanguageLimits = LanguageLimits::PUBLISHED;

/// A place in the query text, in UTF-16 code units as the reference counts; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub start: usize,
    pub end: usize,
}

impl Location {
    /// From byte offsets. Walks over the whole text, so it is for errors only.
    pub(crate) fn in_text(text: &str, start: usize, end: usize) -> Location {
        let units = |text: &str| text.chars().map(char::len_utf16).sum::<usize>();
        let before = units(&text[..start]);
        Location { start: before, end: before + units(&text[start..end]) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    #[error("Syntax error, incorrect syntax near '{near}'.")]
    Syntax { near: String, location: Location },
    #[error("Syntax error, unexpected end-of-file.")]
    UnexpectedEnd { location: Location },
    /// A character that starts no token.
    #[error("Syntax error, invalid token '{token}'.")]
    InvalidToken { token: String, location: Location },
    #[error("Syntax error, invalid numeric value token '{token}'.")]
    InvalidNumber { token: String, location: Location },
    #[error("Syntax error, invalid string literal token '{token}'.")]
    InvalidString { token: String, location: Location },
    #[error("Identifier '{name}' could not be resolved.")]
    UnresolvedIdentifier { name: String, location: Location },
    #[error("'{name}' is not a recognized built-in function name.")]
    UnknownFunction { name: String, location: Location },
    /// `expected` is `2`, `2 to 3` or `at least 2`; the place is the whole call.
    #[error("The {name} function requires {expected} argument(s).")]
    ArgumentCount { name: String, expected: String, location: Location },
    /// A rule beyond the grammar; see [`Rule`].
    #[error("{rule}")]
    Rule { rule: Rule, location: Option<Location> },
    /// Has a body of its own shape: a list of texts without codes and places.
    #[error("Compositions of aggregates and other expressions are not allowed.")]
    AggregateComposition,
    /// `ORDER BY` uses a variable with several values per item, such as one of a `JOIN`. The response body is a list of texts.
    #[error("Order-by over correlated collections is not supported.")]
    CorrelatedOrderBy,
    /// The place is the `*`.
    #[error("Syntax error, 'SELECT *' is not valid if FROM clause is omitted.")]
    StarWithoutFrom { location: Location },
    #[error("the computed property '{name}' is invalid: {reason}")]
    ComputedProperty { name: String, reason: String },
    /// With advice that the reference does not give.
    #[error("{error}")]
    Advised { error: Box<SqlError>, hint: String },
    /// More than one, as the reference lists them. Never empty, and never nested.
    #[error("{}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Several(Vec<SqlError>),
    /// Its body is of the same shape.
    #[error(
        "Invalid query. Specified parameter name '{name}' is invalid. Parameter names should be in the format of symbol '@' \
         followed by a valid identifier. E.g. @param1"
    )]
    InvalidParameterName { name: String },
    /// Its body is of the same shape.
    #[error("Invalid query. Specified duplicate parameter name '{name}'.")]
    DuplicateParameter { name: String },
    /// The query is larger than the language allows; the place is all of it.
    #[error("{}", limit.broken())]
    Limit { limit: LanguageLimit, location: Location },
    #[error("the query is nested deeper than {nesting_max} levels")]
    TooDeep { nesting_max: usize },
    /// The time budget is used up.
    #[error("the query took too long")]
    Interrupted,
    #[error("the query makes a value of more than {size_bytes_max} bytes")]
    ResultTooLarge { size_bytes_max: usize },
    #[error(
        "the query takes more than {steps_max} steps of evaluation for one item: join fewer arrays, or test their elements earlier"
    )]
    ItemTooDear { steps_max: u64 },
    #[error("A scalar subquery returned more than one row.")]
    SubqueryRows,
    /// The client asked for a plan and cannot merge what it would say. Never empty. The reference answers with the bare text.
    #[error(
        "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested \
         features:{}",
        missing_features(features)
    )]
    MissingClientFeatures { features: Vec<QueryFeature> },
    #[error("a regular expression is not valid: {reason}")]
    Pattern { reason: String },
    #[error("The index path corresponding to the specified order-by item is excluded.")]
    OrderByExcluded,
    #[error("The order by query does not have a corresponding composite index that it can be served from.")]
    OrderByWithoutComposite,
    /// A page's state that no page of this server has given out.
    #[error("Invalid Continuation Token")]
    InvalidState,
    #[error("Order-by is not supported for the target resource type.")]
    OrderByOverResources,
    #[error(
        "'resumeFilter' is not valid for this query: it needs ORDER BY without GROUP BY, and one value for each of its {expected} expressions"
    )]
    ResumeFilter { expected: usize },
    #[error(
        "DISTINCT, GROUP BY or ORDER BY would have to keep too many rows at once: narrow the query with a filter"
    )]
    TooManyGroups,
    /// A row that came from a partition is not what the rewritten query says.
    #[error("a partition's answer cannot be merged")]
    UnmergeableRow,
    /// The place is not known.
    #[error(
        "The response content contains a numeric value that cannot be represented in JSON (e.g. Infinity and NaN)"
    )]
    NotFinite,
    #[error("the user-defined function '{name}' does not exist in this container")]
    UnknownUserFunction { name: String },
    #[error(
        "the query calls user-defined functions in more than {references_max} places, which is the limit"
    )]
    TooManyUserFunctions { references_max: usize },
    /// What calling one came to.
    #[error("{message}")]
    UserFunction { kind: ErrorKind, message: String, substatus: Option<u32> },
    /// The value of a call is not known yet. Executions handle it themselves: callers never see it.
    #[error("a user-defined function has to be called first")]
    AwaitsUserFunction,
    /// A part of the language that this server does not have yet.
    #[error("{feature} is not supported")]
    Unsupported { feature: String },
}

/// A feature of a client's own merge. In the order in which missing features are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueryFeature {
    Aggregate,
    CompositeAggregate,
    Distinct,
    GroupBy,
    MultipleAggregates,
    MultipleOrderBy,
    OffsetAndLimit,
    OrderBy,
    Top,
    NonValueAggregate,
    DistinctCount,
    NonStreamingOrderBy,
    ListAndSetAggregate,
    CountIf,
    HybridSearch,
    WeightedRankFusion,
    HybridSearchSkipOrderByRewrite,
}

impl QueryFeature {
    pub(crate) const ALL: [QueryFeature; 17] = [
        QueryFeature::Aggregate,
        QueryFeature::CompositeAggregate,
        QueryFeature::Distinct,
        QueryFeature::GroupBy,
        QueryFeature::MultipleAggregates,
        QueryFeature::MultipleOrderBy,
        QueryFeature::OffsetAndLimit,
        QueryFeature::OrderBy,
        QueryFeature::Top,
        QueryFeature::NonValueAggregate,
        QueryFeature::DistinctCount,
        QueryFeature::NonStreamingOrderBy,
        QueryFeature::ListAndSetAggregate,
        QueryFeature::CountIf,
        QueryFeature::HybridSearch,
        QueryFeature::WeightedRankFusion,
        QueryFeature::HybridSearchSkipOrderByRewrite,
    ];

    /// The clients' spelling.
    pub fn name(self) -> &'static str {
        match self {
            QueryFeature::Aggregate => "Aggregate",
            QueryFeature::CompositeAggregate => "CompositeAggregate",
            QueryFeature::Distinct => "Distinct",
            QueryFeature::GroupBy => "GroupBy",
            QueryFeature::MultipleAggregates => "MultipleAggregates",
            QueryFeature::MultipleOrderBy => "MultipleOrderBy",
            QueryFeature::OffsetAndLimit => "OffsetAndLimit",
            QueryFeature::OrderBy => "OrderBy",
            QueryFeature::Top => "Top",
            QueryFeature::NonValueAggregate => "NonValueAggregate",
            QueryFeature::DistinctCount => "DCount",
            QueryFeature::NonStreamingOrderBy => "NonStreamingOrderBy",
            QueryFeature::ListAndSetAggregate => "ListAndSetAggregate",
            QueryFeature::CountIf => "CountIf",
            QueryFeature::HybridSearch => "HybridSearch",
            QueryFeature::WeightedRankFusion => "WeightedRankFusion",
            QueryFeature::HybridSearchSkipOrderByRewrite => "HybridSearchSkipOrderByRewrite",
        }
    }
}

/// What the language allows only so much of (`LanguageLimits` in `crates/model/src/limits.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguageLimit {
    Text,
    Joins,
    Ands,
    Ors,
    ListItems,
}

impl LanguageLimit {
    /// How many there may be.
    pub fn most(self) -> usize {
        match self {
            LanguageLimit::Text => LIMITS.text_length_max,
            LanguageLimit::Joins => LIMITS.joins_max,
            LanguageLimit::Ands => LIMITS.ands_max,
            LanguageLimit::Ors => LIMITS.ors_max,
            LanguageLimit::ListItems => LIMITS.list_items_max,
        }
    }

    /// The reference's words for texts and joins, and ours after their pattern for the others.
    fn broken(self) -> String {
        let what = match self {
            LanguageLimit::Text => {
                return format!(
                    "The SQL query text exceeded the maximum limit of {} characters.",
                    self.most()
                );
            }
            LanguageLimit::Joins => "joins",
            LanguageLimit::Ands => "logical AND operators",
            LanguageLimit::Ors => "logical OR operators",
            LanguageLimit::ListItems => "items in an IN expression",
        };
        format!("The SQL query exceeded the maximum number of {what}. The allowed limit is {}.", self.most())
    }

    fn code(self) -> Option<&'static str> {
        match self {
            LanguageLimit::Text => Some("SC3020"),
            LanguageLimit::Joins => Some("SC3002"),
            LanguageLimit::Ands | LanguageLimit::Ors | LanguageLimit::ListItems => None,
        }
    }
}

/// Rules that only the query as a whole can break. Where nothing else is said, the place is the clause or call named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// The place is the `*`.
    #[error("'SELECT *' is not allowed with GROUP BY.")]
    StarWithGroupBy,
    /// The place is the `*`.
    #[error("'SELECT *' is not allowed with aggregate functions.")]
    StarWithAggregate,
    /// No integer from 0 to 2^32 - 1; the place is the number or the parameter, also of the next two.
    #[error("The count value provided for a TOP clause must be an integer.")]
    InvalidTop,
    #[error("The LIMIT count value exceeds the maximum allowed value.")]
    InvalidLimit,
    #[error("The OFFSET count value exceeds the maximum allowed value.")]
    InvalidOffset,
    /// The place is the whole query or subquery.
    #[error("A TOP cannot be used in the same query or subquery as an OFFSET.")]
    TopWithOffset,
    /// The place is the name in the select list.
    #[error("Object creation error, property name '{name}' specified more than once.")]
    DuplicateColumn { name: String },
    /// The place is the key.
    #[error("Each GROUP BY expression must contain at least one property reference.")]
    GroupKeyWithoutProperty,
    #[error(
        "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause."
    )]
    AggregateInGroupKey,
    /// The place is the call.
    #[error("The timespan argument provided to the DateTime function is invalid.")]
    InvalidTimespan,
    /// The place is the subquery without its parentheses.
    #[error("The cardinality of a scalar subquery result set cannot be greater than one.")]
    ScalarSubqueryWithRows,
    /// The place is the text behind `ESCAPE`.
    #[error("The invalid escape character '{text}' was specified in a LIKE predicate.")]
    InvalidEscape { text: String },
    /// The place is the second use.
    #[error("The input set name or alias '{name}' is specified more than once in the FROM clause.")]
    DuplicateAlias { name: String },
    /// The place is the `*`.
    #[error("'SELECT *' is only valid with a single input set.")]
    StarOverSeveral,
    #[error("Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")]
    NestedAggregate,
    #[error(
        "Property reference '{reference}' is invalid in the select list because it is not contained in either an \
         aggregate function or the GROUP BY clause."
    )]
    NotGrouped { reference: String },
    #[error(
        "Property reference '{reference}' is invalid in the ORDER BY clause because it is not contained in either an \
         aggregate function or the GROUP BY clause."
    )]
    NotGroupedInOrderBy { reference: String },
    #[error("'ORDER BY' is not supported in subqueries.")]
    OrderByInSubquery,
    /// The place is `TOP n`.
    #[error("'TOP' is not supported in subqueries.")]
    TopInSubquery,
    #[error("'OFFSET LIMIT' clause is not supported in subqueries.")]
    OffsetLimitInSubquery,
    /// Has no place.
    #[error("Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")]
    OrderByNotAPath,
    /// The place is the options object.
    #[error(
        "The 'searchListSizeMultiplier' value {value} specified in the VectorDistance function is outside the supported \
         range. The value must be between 1 and 100."
    )]
    SearchListSizeMultiplier { value: String },
    #[error(
        "The ORDER BY RANK clause must be followed by a VectorDistance and/or a FullTextScore function call."
    )]
    RankFunction,
    #[error("The IN keyword is not supported with the ORDER BY RANK clause.")]
    InWithRank,
    #[error("The JOIN keyword is not supported with the ORDER BY RANK clause.")]
    JoinWithRank,
    #[error("Subqueries in the FROM clause are not supported with the ORDER BY RANK clause.")]
    SubqueryWithRank,
    #[error("The ORDER BY RANK clause is not supported in subqueries.")]
    RankInSubquery,
    #[error(
        "The last parameter of the RRF function is an optional array of weights. When present, it must be a literal array \
         of numbers, one for each of the component scores used for the RRF function. The length of this array must be the \
         same as the number of the component scores."
    )]
    RankWeights,
    /// The place is the call.
    #[error("The FullTextScore function is only allowed in the ORDER BY RANK clause.")]
    ScoreOutsideRank,
    /// For `member indexer` the place is the whole expression with its brackets.
    #[error("The specified query includes '{feature}' which is currently not supported.")]
    UnsupportedFeature { feature: String },
}

impl Rule {
    pub fn code(&self) -> &'static str {
        match self {
            Rule::StarWithGroupBy => "SC2041",
            Rule::InvalidTop => "SC2060",
            Rule::InvalidLimit => "SC2061",
            Rule::InvalidOffset => "SC2062",
            Rule::DuplicateAlias { .. } => "SC2021",
            Rule::DuplicateColumn { .. } => "SC2022",
            Rule::StarWithAggregate => "SC2040",
            Rule::StarOverSeveral => "SC2042",
            Rule::InvalidTimespan => "SC2053",
            Rule::GroupKeyWithoutProperty => "SC2110",
            Rule::AggregateInGroupKey => "SC2111",
            Rule::ScalarSubqueryWithRows => "SC2201",
            Rule::TopWithOffset => "SC2205",
            Rule::InvalidEscape { .. } => "SC2207",
            Rule::NestedAggregate => "SC2101",
            Rule::NotGrouped { .. } => "SC2102",
            Rule::NotGroupedInOrderBy { .. } => "SC2103",
            Rule::OrderByInSubquery => "SC2202",
            Rule::TopInSubquery => "SC2203",
            Rule::OffsetLimitInSubquery => "SC2204",
            Rule::OrderByNotAPath => "2206",
            Rule::SearchListSizeMultiplier { .. } => "SC2213",
            Rule::RankFunction => "SC2221",
            Rule::InWithRank => "SC2223",
            Rule::JoinWithRank => "SC2224",
            Rule::SubqueryWithRank => "SC2225",
            Rule::RankInSubquery => "SC2228",
            Rule::RankWeights => "SC2229",
            Rule::ScoreOutsideRank => "SC2240",
            Rule::UnsupportedFeature { .. } => "SC2990",
        }
    }
}

impl SqlError {
    /// The reference's code, where it has one; of several errors, the first's.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            SqlError::Syntax { .. } => Some("SC1001"),
            SqlError::UnexpectedEnd { .. } => Some("SC1002"),
            SqlError::InvalidToken { .. } => Some("SC1010"),
            SqlError::InvalidNumber { .. } => Some("SC1011"),
            SqlError::InvalidString { .. } => Some("SC1012"),
            SqlError::StarWithoutFrom { .. } => Some("SC1021"),
            SqlError::UnresolvedIdentifier { .. } => Some("SC2001"),
            SqlError::UnknownFunction { .. } => Some("SC2005"),
            SqlError::ArgumentCount { .. } => Some("SC2050"),
            SqlError::Rule { rule, .. } => Some(rule.code()),
            SqlError::Limit { limit, .. } => limit.code(),
            SqlError::NotFinite => Some("4001"),
            SqlError::Several(errors) => errors.first().and_then(SqlError::code),
            SqlError::Advised { error, .. } => error.code(),
            SqlError::AggregateComposition
            | SqlError::CorrelatedOrderBy
            | SqlError::ComputedProperty { .. }
            | SqlError::InvalidParameterName { .. }
            | SqlError::DuplicateParameter { .. }
            | SqlError::TooDeep { .. }
            | SqlError::Interrupted
            | SqlError::ResultTooLarge { .. }
            | SqlError::ItemTooDear { .. }
            | SqlError::SubqueryRows
            | SqlError::InvalidState
            | SqlError::ResumeFilter { .. }
            | SqlError::OrderByOverResources
            | SqlError::Pattern { .. }
            | SqlError::OrderByExcluded
            | SqlError::OrderByWithoutComposite
            | SqlError::TooManyGroups
            | SqlError::UnmergeableRow
            | SqlError::MissingClientFeatures { .. }
            | SqlError::UnknownUserFunction { .. }
            | SqlError::TooManyUserFunctions { .. }
            | SqlError::UserFunction { .. }
            | SqlError::AwaitsUserFunction
            | SqlError::Unsupported { .. } => None,
        }
    }

    pub fn location(&self) -> Option<Location> {
        match self {
            SqlError::Syntax { location, .. }
            | SqlError::UnexpectedEnd { location }
            | SqlError::InvalidToken { location, .. }
            | SqlError::InvalidNumber { location, .. }
            | SqlError::InvalidString { location, .. }
            | SqlError::UnresolvedIdentifier { location, .. }
            | SqlError::UnknownFunction { location, .. }
            | SqlError::StarWithoutFrom { location }
            | SqlError::ArgumentCount { location, .. }
            | SqlError::Limit { location, .. } => Some(*location),
            SqlError::Rule { location, .. } => *location,
            SqlError::Several(errors) => errors.first().and_then(SqlError::location),
            SqlError::Advised { error, .. } => error.location(),
            SqlError::AggregateComposition
            | SqlError::CorrelatedOrderBy
            | SqlError::ComputedProperty { .. }
            | SqlError::InvalidParameterName { .. }
            | SqlError::DuplicateParameter { .. }
            | SqlError::TooDeep { .. }
            | SqlError::Interrupted
            | SqlError::ResultTooLarge { .. }
            | SqlError::ItemTooDear { .. }
            | SqlError::SubqueryRows
            | SqlError::InvalidState
            | SqlError::ResumeFilter { .. }
            | SqlError::OrderByOverResources
            | SqlError::Pattern { .. }
            | SqlError::OrderByExcluded
            | SqlError::OrderByWithoutComposite
            | SqlError::TooManyGroups
            | SqlError::UnmergeableRow
            | SqlError::NotFinite
            | SqlError::MissingClientFeatures { .. }
            | SqlError::UnknownUserFunction { .. }
            | SqlError::TooManyUserFunctions { .. }
            | SqlError::UserFunction { .. }
            | SqlError::AwaitsUserFunction
            | SqlError::Unsupported { .. } => None,
        }
    }

    /// The reference's error body. Errors that only we have come without a code.
    pub fn to_json(&self) -> String {
        match self {
            SqlError::AggregateComposition
            | SqlError::CorrelatedOrderBy
            | SqlError::InvalidParameterName { .. }
            | SqlError::DuplicateParameter { .. } => {
                format!("{{\"Errors\":[{}]}}", quoted(&self.to_string()))
            }
            SqlError::Several(errors) => format!("{{\"errors\":[{}]}}", entries(errors)),
            error => format!("{{\"errors\":[{}]}}", entries(std::slice::from_ref(error))),
        }
    }

    pub(crate) fn rule(rule: Rule, location: Location) -> SqlError {
        SqlError::Rule { rule, location: Some(location) }
    }

    pub(crate) fn beyond(limit: LanguageLimit, text: &str) -> SqlError {
        SqlError::Limit { limit, location: Location::in_text(text, 0, text.len()) }
    }

    pub(crate) fn unsupported(feature: impl Into<String>) -> SqlError {
        SqlError::Unsupported { feature: feature.into() }
    }
}

fn missing_features(features: &[QueryFeature]) -> String {
    let line = |feature: &QueryFeature| {
        format!("\nQuery contained {}, which the calling client does not support.", feature.name())
    };
    features.iter().map(line).collect()
}

fn entries(errors: &[SqlError]) -> String {
    let entries: Vec<String> = errors.iter().map(entry).collect();
    entries.join(",")
}

fn entry(error: &SqlError) -> String {
    let mut out = String::from("{\"severity\":\"Error\"");
    if let Some(Location { start, end }) = error.location() {
        write!(out, ",\"location\":{{\"start\":{start},\"end\":{end}}}").expect("a string takes all text");
    }
    match error.code() {
        // Codes without letters are JSON numbers in the reference.
        Some(code) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
            out.push_str(&format!(",\"code\":{code}"))
        }
        Some(code) => out.push_str(&format!(",\"code\":\"{code}\"")),
        None => {}
    }
    out.push_str(",\"message\":");
    out.push_str(&quoted(&error.to_string()));
    if let SqlError::Advised { hint, .. } = error {
        out.push_str(",\"hint\":");
        out.push_str(&quoted(hint));
    }
    out.push('}');
    out
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    shardlake_document::Value::String(text.to_string()).to_json().expect("a string always has JSON text")
}

impl From<SqlError> for shardlake_model::Error {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Unsupported { .. } => shardlake_model::Error::unsupported(error.to_string()),
            SqlError::UserFunction { kind, message, substatus } => {
                let error = shardlake_model::Error::new(kind, message);
                match substatus {
                    Some(substatus) => error.with_substatus(substatus),
                    None => error,
                }
            }
            SqlError::UnmergeableRow | SqlError::AwaitsUserFunction => {
                shardlake_model::Error::internal(error.to_string())
            }
            SqlError::Interrupted => shardlake_model::Error::new(
                shardlake_model::ErrorKind::Timeout,
                "the query did not finish in the time of its request: narrow its filter or read it in pages",
            ),
            error if error.code().is_some() || matches!(error, SqlError::Limit { .. }) => {
                shardlake_model::Error::bad_request(error.to_json())
            }
            SqlError::AggregateComposition
            | SqlError::InvalidParameterName { .. }
            | SqlError::DuplicateParameter { .. } => shardlake_model::Error::bad_request(error.to_json()),
            _ => shardlake_model::Error::bad_request(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_the_references() {
        let location = Location { start: 7, end: 14 };
        let unknown = SqlError::UnknownFunction { name: "BADFUNC".into(), location };
        assert_eq!(
            unknown.to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":7,"end":14},"code":"SC2005","message":"'BADFUNC' is not a recognized built-in function name."}]}"#
        );
        assert_eq!(
            SqlError::Rule { rule: Rule::OrderByNotAPath, location: None }.to_json(),
            r#"{"errors":[{"severity":"Error","code":2206,"message":"Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."}]}"#
        );
        assert_eq!(
            SqlError::AggregateComposition.to_json(),
            r#"{"Errors":["Compositions of aggregates and other expressions are not allowed."]}"#
        );
        let several = SqlError::Several(vec![
            SqlError::rule(Rule::OrderByInSubquery, location),
            SqlError::InvalidString { token: "\"".into(), location },
        ]);
        assert_eq!(
            several.to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":7,"end":14},"code":"SC2202","message":"'ORDER BY' is not supported in subqueries."},{"severity":"Error","location":{"start":7,"end":14},"code":"SC1012","message":"Syntax error, invalid string literal token '\"'."}]}"#
        );
    }
}
