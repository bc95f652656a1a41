//! The table of functions, one per line: variant, the name it is printed with, its other names, the types of
//! its arguments and its result, fewest and most arguments, and the implementation. Spellings that differ
//! only in case and underscores need no entry.

use crate::error::SqlError;
use crate::functions::call::{Answer, Call};
use crate::functions::prepared_call::PreparedCall;
use crate::functions::{
    array, collation, conversion, date_format, date_time, integer, math, regex, search, set, spatial, string,
    types,
};
use crate::value::context::EvaluationContext;
use crate::value::datum::{Datum, DatumType};

/// Any number of arguments.
pub(super) const MANY: usize = usize::MAX;

macro_rules! functions {
    (|$call:ident| $($variant:ident $name:literal $([$($alias:literal),+])? $kinds:literal $fewest:literal, $most:expr => $apply:expr;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Function {
            $($variant,)+
        }

        impl Function {
            pub fn all() -> impl Iterator<Item = Function> {
                [$(Function::$variant,)+].into_iter()
            }

            /// The name in capitals, as the reference documents it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Function::$variant => $name,)+
                }
            }

            /// Whether a query may use this name for it.
            pub(super) fn is_called(self, name: &str) -> bool {
                match self {
                    $(Function::$variant => {
                        is_same_name($name, name) $($(|| is_same_name($alias, name))+)?
                    })+
                }
            }

            /// The fewest and the most.
            pub(super) fn argument_counts(self) -> (usize, usize) {
                match self {
                    $(Function::$variant => ($fewest, $most),)+
                }
            }

            /// Types of the arguments, of which the last applies to all further ones, and of the result, as
            /// `plan/types.rs` reads them.
            pub(crate) fn kinds(self) -> (&'static str, &'static str) {
                let kinds = match self {
                    $(Function::$variant => $kinds,)+
                };
                kinds.split_once(':').unwrap_or(("*", "*"))
            }

            /// `arguments` has a length that [`crate::functions::find`] accepted.
            pub fn apply<'a>(
                self,
                arguments: &[Datum<'a>],
                work: &EvaluationContext<'_>,
            ) -> Result<Datum<'a>, SqlError> {
                work.step(self.steps(arguments))?;
                let $call = &Call { arguments, context: work.functions, work };
                match self {
                    $(Function::$variant => $apply.applied(),)+
                }
            }
        }
    };
}

functions! { |call|
    IsArray "IS_ARRAY" "*:b" 1, 1 => types::has_type(call, DatumType::Array);
    IsBool "IS_BOOL" ["IS_BOOLEAN"] "*:b" 1, 1 => types::has_type(call, DatumType::Bool);
    IsDateTime "IS_DATETIME" "*:b" 1, 1 => types::is_date_time(call);
    IsDefined "IS_DEFINED" "*:b" 1, 1 => types::is_defined(call);
    IsFiniteNumber "IS_FINITE_NUMBER" "*:b" 1, 1 => types::is_finite_number(call);
    IsInteger "IS_INTEGER" "*:b" 1, 1 => types::is_integer(call);
    IsNull "IS_NULL" "*:b" 1, 1 => types::has_type(call, DatumType::Null);
    IsNumber "IS_NUMBER" "*:b" 1, 1 => types::has_type(call, DatumType::Number);
    IsObject "IS_OBJECT" "*:b" 1, 1 => types::has_type(call, DatumType::Object);
    IsPrimitive "IS_PRIMITIVE" "*:b" 1, 1 => types::is_primitive(call);
    IsString "IS_STRING" "*:b" 1, 1 => types::has_type(call, DatumType::String);

    Contains "CONTAINS" "ssb:b" 2, 3 => search::contains(call);
    StartsWith "STARTSWITH" "ssb:b" 2, 3 => search::starts_with(call);
    EndsWith "ENDSWITH" "ssb:b" 2, 3 => search::ends_with(call);
    StringEquals "STRINGEQUALS" "ssb:b" 2, 3 => search::string_equals(call);
    ContainsAllCi "CONTAINS_ALL_CI" "s*:b" 2, MANY => search::contains_each(call, search::Quantifier::All, true);
    ContainsAllCs "CONTAINS_ALL_CS" "s*:b" 2, MANY => search::contains_each(call, search::Quantifier::All, false);
    ContainsAnyCi "CONTAINS_ANY_CI" "s*:b" 2, MANY => search::contains_each(call, search::Quantifier::Any, true);
    ContainsAnyCs "CONTAINS_ANY_CS" "s*:b" 2, MANY => search::contains_each(call, search::Quantifier::Any, false);
    IndexOf "INDEX_OF" "ssn:n" 2, 3 => search::index_of(call);
    LastIndexOf "LASTINDEXOF" "ssn:n" 2, 3 => search::last_index_of(call);
    SubstringAfter "SUBSTRINGAFTER" "ss:s" 2, 2 => search::after(call, search::Which::First);
    SubstringBefore "SUBSTRINGBEFORE" "ss:s" 2, 2 => search::before(call, search::Which::First);
    LastSubstringAfter "LASTSUBSTRINGAFTER" "ss:s" 2, 2 => search::after(call, search::Which::Last);
    LastSubstringBefore "LASTSUBSTRINGBEFORE" "ss:s" 2, 2 => search::before(call, search::Which::Last);

    RegexMatch "REGEXMATCH" "sss:b" 2, 3 => regex::matches(call, None);
    RegexExtract "REGEXEXTRACT" "sssn:s" 2, 4 => regex::extract(call, None);
    RegexExtractAll "REGEXEXTRACTALL" "sssn:a" 2, 4 => regex::extract_all(call, None);
    RegexReplace "REGEXREPLACE" "ssss:s" 3, 4 => regex::replace(call, None, 1);
    RegexReplaceAll "REGEXREPLACEALL" "ssss:s" 3, 4 => regex::replace(call, None, MANY);

    Concat "CONCAT" "s:s" 2, MANY => string::concat(call);
    Left "LEFT" "sn:s" 2, 2 => string::left(call);
    Length "LENGTH" "s:n" 1, 1 => string::length(call);
    Lower "LOWER" "s:s" 1, 1 => string::lower(call);
    SortKey "SORTKEY" "ss:s" 2, 2 => collation::sort_key(call);
    SortKeyOfId "SORTKEYOFID" "ss:s" 2, 2 => collation::sort_key_of_id(call);
    LTrim "LTRIM" "ss:s" 1, 2 => string::trim(call, true, false);
    Replace "REPLACE" "sss:s" 3, 3 => string::replace(call);
    Replicate "REPLICATE" "sn:s" 2, 2 => string::replicate(call);
    Reverse "REVERSE" "s:s" 1, 1 => string::reverse(call);
    Right "RIGHT" "sn:s" 2, 2 => string::right(call);
    RTrim "RTRIM" "ss:s" 1, 2 => string::trim(call, false, true);
    StringJoin "STRINGJOIN" "as:s" 2, 2 => string::join(call);
    StringSplit "STRINGSPLIT" "ss:a" 2, 2 => string::split(call);
    Substring "SUBSTRING" "snn:s" 3, 3 => string::substring(call);
    Trim "TRIM" "ss:s" 1, 2 => string::trim(call, true, true);
    Upper "UPPER" "s:s" 1, 1 => string::upper(call);

    ToText "TOSTRING" "*:s" 1, 1 => conversion::to_string(call);
    StringToArray "STRINGTOARRAY" "s:a" 1, 1 => conversion::parse(call, DatumType::Array);
    StringToBoolean "STRINGTOBOOLEAN" "s:b" 1, 1 => conversion::parse(call, DatumType::Bool);
    StringToNull "STRINGTONULL" "s:0" 1, 1 => conversion::parse(call, DatumType::Null);
    StringToNumber "STRINGTONUMBER" "s:n" 1, 1 => conversion::parse(call, DatumType::Number);
    StringToObject "STRINGTOOBJECT" "s:o" 1, 1 => conversion::parse(call, DatumType::Object);

    ArrayAvg "ARRAY_AVG" "a:n" 1, 1 => array::average(call);
    ArrayConcat "ARRAY_CONCAT" "a:a" 2, MANY => array::concat(call);
    ArrayContains "ARRAY_CONTAINS" "a**:b" 2, 3 => array::contains(call);
    ArrayContainsAll "ARRAY_CONTAINS_ALL" "a*:b" 2, MANY => array::contains_each(call, search::Quantifier::All);
    ArrayContainsAny "ARRAY_CONTAINS_ANY" "a*:b" 2, MANY => array::contains_each(call, search::Quantifier::Any);
    ArrayLength "ARRAY_LENGTH" "a:n" 1, 1 => array::length(call);
    ArrayMax "ARRAY_MAX" "a:*" 1, 1 => array::extreme(call, true);
    ArrayMedian "ARRAY_MEDIAN" "a:n" 1, 1 => array::median(call);
    ArrayMin "ARRAY_MIN" "a:*" 1, 1 => array::extreme(call, false);
    ArraySlice "ARRAY_SLICE" "ann:a" 2, 3 => array::slice(call);
    ArraySum "ARRAY_SUM" "a:n" 1, 1 => array::sum(call);
    ObjectToArray "OBJECTTOARRAY" "oss:a" 1, 3 => array::object_to_array(call);
    SetDifference "SETDIFFERENCE" "aa:a" 2, 2 => set::difference(call);
    SetEqual "SETEQUAL" "aa:b" 2, 2 => set::equal(call);
    SetIntersect "SETINTERSECT" "aa:a" 2, 2 => set::intersect(call);
    SetUnion "SETUNION" "aa:a" 2, 2 => set::union(call);

    Abs "ABS" "n:n" 1, 1 => math::abs(call);
    Acos "ACOS" "n:n" 1, 1 => math::of_double(call, f64::acos);
    Asin "ASIN" "n:n" 1, 1 => math::of_double(call, f64::asin);
    Atan "ATAN" "n:n" 1, 1 => math::of_double(call, f64::atan);
    Atn2 "ATN2" "n:n" 2, 2 => math::of_doubles(call, f64::atan2);
    Ceiling "CEILING" "n:n" 1, 1 => math::rounded(call, f64::ceil);
    Cos "COS" "n:n" 1, 1 => math::of_double(call, f64::cos);
    Cot "COT" "n:n" 1, 1 => math::of_double(call, |x| 1.0 / x.tan());
    Degrees "DEGREES" "n:n" 1, 1 => math::of_double(call, f64::to_degrees);
    Exp "EXP" "n:n" 1, 1 => math::of_double(call, f64::exp);
    Floor "FLOOR" "n:n" 1, 1 => math::rounded(call, f64::floor);
    Log "LOG" "n:n" 1, 2 => math::log(call);
    Log10 "LOG10" "n:n" 1, 1 => math::of_double(call, f64::log10);
    NumberBin "NUMBERBIN" "n:n" 1, 2 => math::number_bin(call);
    Pi "PI" "n:n" 0, 0 => Datum::Number(shardlake_document::Number::Double(std::f64::consts::PI));
    Power "POWER" "n:n" 2, 2 => math::of_doubles(call, f64::powf);
    Radians "RADIANS" "n:n" 1, 1 => math::of_double(call, f64::to_radians);
    Rand "RAND" "n:n" 0, 0 => math::random(call);
    Round "ROUND" "n:n" 1, 2 => math::round(call);
    Sign "SIGN" "n:n" 1, 1 => math::sign(call);
    Sin "SIN" "n:n" 1, 1 => math::of_double(call, f64::sin);
    Sqrt "SQRT" "n:n" 1, 1 => math::of_double(call, f64::sqrt);
    Square "SQUARE" "n:n" 1, 1 => math::of_double(call, |x| x * x);
    Tan "TAN" "n:n" 1, 1 => math::of_double(call, f64::tan);
    Trunc "TRUNC" "n:n" 1, 1 => math::rounded(call, f64::trunc);

    IntAdd "INTADD" "n:n" 2, 2 => integer::of_two(call, i64::wrapping_add);
    IntSub "INTSUB" "n:n" 2, 2 => integer::of_two(call, i64::wrapping_sub);
    IntMul "INTMUL" ["INTMULTIPLY"] "n:n" 2, 2 => integer::of_two(call, i64::wrapping_mul);
    IntDiv "INTDIV" "n:n" 2, 2 => integer::quotient(call, i64::wrapping_div);
    IntMod "INTMOD" "n:n" 2, 2 => integer::quotient(call, i64::wrapping_rem);
    IntBitAnd "INTBITAND" "n:n" 2, 2 => integer::of_two(call, |x, y| x & y);
    IntBitOr "INTBITOR" "n:n" 2, 2 => integer::of_two(call, |x, y| x | y);
    IntBitXor "INTBITXOR" "n:n" 2, 2 => integer::of_two(call, |x, y| x ^ y);
    IntBitNot "INTBITNOT" "n:n" 1, 1 => integer::complement(call);
    IntBitLeftShift "INTBITLEFTSHIFT" "n:n" 2, 2 => integer::of_two(call, |x, y| x.wrapping_shl(y as u32));
    IntBitRightShift "INTBITRIGHTSHIFT" "n:n" 2, 2 => integer::of_two(call, |x, y| x.wrapping_shr(y as u32));

    Ago "AGO" "sn:s" 2, 2 => date_time::ago(call);
    DateTimeAdd "DATETIMEADD" "sns:s" 2, 3 => date_time::add(call);
    DateTimeBin "DATETIMEBIN" "ssns:s" 2, 4 => date_time::bin(call);
    DateTimeDiff "DATETIMEDIFF" "sss:n" 3, 3 => date_time::difference(call);
    DateTimeFormat "DATETIMEFORMAT" "ss:s" 2, 2 => date_format::format(call);
    DateTimeFromParts "DATETIMEFROMPARTS" "n:s" 3, 7 => date_time::from_parts(call);
    DateTimePart "DATETIMEPART" "ss:n" 2, 2 => date_time::part(call);
    DateTimeToTicks "DATETIMETOTICKS" "s:n" 1, 1 => date_time::to_ticks(call);
    DateTimeToTimestamp "DATETIMETOTIMESTAMP" "s:n" 1, 1 => date_time::to_timestamp(call);
    Day "DAY" "s:n" 1, 1 => date_time::field(call, date_time::Part::Day);
    GetCurrentDateTime "GETCURRENTDATETIME" ":s" 0, 0 => date_time::now(call);
    GetCurrentDateTimeStatic "GETCURRENTDATETIMESTATIC" ":s" 0, 0 => date_time::now(call);
    GetCurrentTicks "GETCURRENTTICKS" ":n" 0, 0 => date_time::now_ticks(call);
    GetCurrentTicksStatic "GETCURRENTTICKSSTATIC" ":n" 0, 0 => date_time::now_ticks(call);
    GetCurrentTimestamp "GETCURRENTTIMESTAMP" ":n" 0, 0 => date_time::now_timestamp(call);
    GetCurrentTimestampStatic "GETCURRENTTIMESTAMPSTATIC" ":n" 0, 0 => date_time::now_timestamp(call);
    Month "MONTH" "s:n" 1, 1 => date_time::field(call, date_time::Part::Month);
    Now "NOW" ":s" 0, 0 => date_time::now(call);
    TicksToDateTime "TICKSTODATETIME" "ns:s" 1, 2 => date_format::from_ticks(call);
    TimestampToDateTime "TIMESTAMPTODATETIME" "ns:s" 1, 2 => date_format::from_timestamp(call);
    Year "YEAR" "s:n" 1, 1 => date_time::field(call, date_time::Part::Year);

    StArea "ST_AREA" "o:n" 1, 1 => spatial::area(call);
    StDistance "ST_DISTANCE" "oo:n" 2, 2 => spatial::distance(call);
    StIntersects "ST_INTERSECTS" "oo:b" 2, 2 => spatial::intersects(call);
    StIsValid "ST_ISVALID" "*:b" 1, 1 => spatial::is_valid(call);
    StIsValidDetailed "ST_ISVALIDDETAILED" "*:o" 1, 1 => spatial::is_valid_detailed(call);
    StWithin "ST_WITHIN" "oo:b" 2, 2 => spatial::is_within(call);
}

impl Function {
    /// The same arguments always give the same result within one query, so that constant calls can be folded.
    pub fn is_pure(self) -> bool {
        self != Function::Rand
    }

    /// [`Function::apply`] with constant arguments prepared by [`crate::functions::prepare`].
    pub fn apply_prepared<'a>(
        self,
        prepared: &PreparedCall,
        arguments: &[Datum<'a>],
        work: &EvaluationContext<'_>,
    ) -> Result<Datum<'a>, SqlError> {
        let call = &Call { arguments, context: work.functions, work };
        match (self, prepared) {
            (Function::RegexMatch, PreparedCall::Pattern(pattern)) => {
                regex::matches(call, Some(pattern)).applied()
            }
            (Function::RegexExtract, PreparedCall::Pattern(pattern)) => {
                regex::extract(call, Some(pattern)).applied()
            }
            (Function::RegexExtractAll, PreparedCall::Pattern(pattern)) => {
                regex::extract_all(call, Some(pattern)).applied()
            }
            (Function::RegexReplace, PreparedCall::Pattern(pattern)) => {
                regex::replace(call, Some(pattern), 1).applied()
            }
            (Function::RegexReplaceAll, PreparedCall::Pattern(pattern)) => {
                regex::replace(call, Some(pattern), MANY).applied()
            }
            (Function::ArrayContains, PreparedCall::Set(set)) => array::contains_in_set(call, set).applied(),
            (other, _) => other.apply(arguments, work),
        }
    }

    /// Steps of a call besides the nodes of its arguments: most functions read them once, some make values of
    /// every part of them.
    fn steps(self, arguments: &[Datum<'_>]) -> u64 {
        use Function::{
            ArrayConcat, ArrayMax, ArrayMedian, ArrayMin, ArraySlice, IsArray, IsBool, IsDefined,
            IsFiniteNumber, IsInteger, IsNull, IsNumber, IsObject, IsPrimitive, IsString, ObjectToArray,
            SetDifference, SetEqual, SetIntersect, SetUnion, StringSplit, StringToArray, StringToObject,
            ToText,
        };
        let times = match self {
            IsArray | IsBool | IsDefined | IsFiniteNumber | IsInteger | IsNull | IsNumber | IsObject
            | IsPrimitive | IsString => 0,
            SetDifference | SetEqual | SetIntersect | SetUnion => 16,
            ArrayConcat | ArrayMax | ArrayMedian | ArrayMin | ArraySlice | ObjectToArray | StringSplit
            | StringToArray | StringToObject | ToText => 4,
            _ => 1,
        };
        if times == 0 {
            return 0;
        }
        1 + times * arguments.iter().map(Datum::read_steps).sum::<u64>()
    }
}

/// Compares names without case and underscores. A leading underscore counts: it marks the reference's
/// internal functions.
pub(super) fn is_same_name(left: &str, right: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        let letters = name.bytes().enumerate().filter(|(at, byte)| *at == 0 || *byte != b'_');
        letters.map(|(_, byte)| byte.to_ascii_uppercase())
    }
    letters(left).eq(letters(right))
}
