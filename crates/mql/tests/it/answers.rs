//! Answers that depend on types of numbers, on arrays within paths, and on missing values.

use crate::commands::{Server, env};
use crate::tagged;
use shardlake_mql::{
    Collation, Context, Document, Filter, Matched, Pipeline, Result, Scope, SortPattern, Update, Value,
    collation_of,
};

fn json(text: &str) -> Value {
    tagged::value(&serde_json::from_str(text).unwrap())
}

fn document(text: &str) -> Document {
    Document::clone(json(text).as_document().unwrap())
}

/// The results of a pipeline over documents, as text.
fn results(documents: &str, stages: &str) -> String {
    let (documents, stages) = (json(documents), json(stages));
    let pipeline = Pipeline::parse(stages.as_array().unwrap(), &Scope::new()).unwrap();
    let server = Server::default();
    let collections = crate::commands::Database { server: &server, name: "test" };
    let mut context =
        Context { env: env(), collections: &collections, indexes: Vec::new(), memory_bytes_max: 1 << 20 };
    let documents: Vec<Value> = documents.as_array().unwrap().to_vec();
    let rows = pipeline.run(documents.into_iter().map(Ok), &mut context).unwrap();
    Value::array(rows).to_string()
}

/// The type and the value of an expression.
fn evaluated(expression: &str) -> String {
    let stages = format!(
        r#"[{{"$project": {{"_id": 0, "v": {expression}}}}}, {{"$project": {{"v": 1, "t": {{"$type": "$v"}}}}}}]"#
    );
    results("[{}]", &stages)
}

fn matches(filter: &str, text: &str) -> bool {
    let filter = Filter::parse(&document(filter), &Scope::new()).unwrap();
    filter.matches(&document(text), &mut env()).unwrap()
}

/// The document after an update, and whether it counts as modified.
fn updated(update: &str, old: &str) -> Result<(String, bool)> {
    let update = Update::parse(&json(update), &[], &Scope::new()).unwrap();
    let new = update.apply(&document(old), Matched::default(), false, &mut env())?;
    Ok((new.document.to_string(), new.modified))
}

#[test]
fn a_decimal_is_subtracted_from_numbers_of_every_type() {
    let half = r#"{"$toDecimal": "2.5"}"#;
    for (number, difference) in [("10", "7.5"), (r#"{"@long": "10"}"#, "7.5"), ("10.0", "7.5000000000000")] {
        let expression = format!(r#"{{"$subtract": [{number}, {half}]}}"#);
        assert_eq!(evaluated(&expression), format!("[ {{ v: {difference}, t: \"decimal\" }} ]"));
    }
    let reversed = evaluated(&format!(r#"{{"$subtract": [{half}, 10]}}"#));
    assert_eq!(reversed, r#"[ { v: -7.5, t: "decimal" } ]"#);
    let nan = evaluated(r#"{"$subtract": [5, {"$toDecimal": "NaN"}]}"#);
    assert_eq!(nan, r#"[ { v: NaN, t: "decimal" } ]"#);
}

#[test]
fn sums_widen_from_left_to_right() {
    let cases = [
        (r#"{"$add": [2147483647, 1, -1]}"#, r#"{ v: 2147483647, t: "int" }"#),
        (r#"{"$multiply": [65536, 65536, 0]}"#, r#"{ v: 0, t: "int" }"#),
        (r#"{"$add": [{"@long": "9007199254740993"}, 0.0]}"#, r#"{ v: 9007199254740992.0, t: "double" }"#),
        (r#"{"$add": [0.1, 0.2, 0.3]}"#, r#"{ v: 0.6000000000000001, t: "double" }"#),
        (r#"{"$sum": [0.1, 0.2, 0.3]}"#, r#"{ v: 0.6, t: "double" }"#),
        (
            r#"{"$avg": [{"@long": "9223372036854775807"}, {"@long": "-9223372036854775808"}]}"#,
            r#"{ v: 0.0, t: "double" }"#,
        ),
        (r#"{"$trunc": [0.29, 2]}"#, r#"{ v: 0.28, t: "double" }"#),
        (r#"{"$ceil": {"$toDecimal": "1E+40"}}"#, r#"{ v: NaN, t: "decimal" }"#),
    ];
    for (expression, wanted) in cases {
        assert_eq!(evaluated(expression), format!("[ {wanted} ]"), "{expression}");
    }
}

#[test]
fn elements_and_places_in_paths_of_filters() {
    // `$elemMatch` compares elements as wholes.
    let nested = r#"{"a": [["q"], 1]}"#;
    for condition in [r#"{"$eq": "q"}"#, r#"{"$in": ["q"]}"#, r#"{"$gte": "p"}"#, r#"{"$type": "string"}"#] {
        assert!(!matches(&format!(r#"{{"a": {{"$elemMatch": {condition}}}}}"#), nested), "{condition}");
    }
    assert!(matches(r#"{"a": {"$elemMatch": {"$elemMatch": {"$eq": "q"}}}}"#, nested));
    // A scalar at a place has no members, and is not without them.
    for scalar in [r#"{"a": ["Abc"]}"#, r#"{"a": [1]}"#] {
        assert!(!matches(r#"{"a.0.x": null}"#, scalar));
        assert!(!matches(r#"{"a.0.x": {"$exists": true}}"#, scalar));
    }
    assert!(matches(r#"{"a.0.x": null}"#, r#"{"a": [{}]}"#));
    assert!(matches(r#"{"a.0": "Abc"}"#, r#"{"a": ["Abc"]}"#));
}

#[test]
fn bits_of_decimals_are_those_of_their_integers() {
    let results = results(
        r#"[{"a": 5}]"#,
        r#"[{"$project": {"_id": 0, "a": {"$toDecimal": "5.9"}}}, {"$match": {"a": {"$bitsAllSet": 5}}}]"#,
    );
    assert_eq!(results, "[ { a: 5.9 } ]");
    assert!(!matches(r#"{"a": {"$bitsAllSet": 5}}"#, r#"{"a": 5.9}"#));
}

#[test]
fn computed_members_turn_every_element_into_a_document() {
    let documents = r#"[{"a": [1, {"b": 2}, [3], null]}]"#;
    let shown = results(documents, r#"[{"$project": {"a.b": {"$literal": 99}}}]"#);
    assert_eq!(shown, "[ { a: [ { b: 99 }, { b: 99 }, [ { b: 99 } ], { b: 99 } ] } ]");
    assert_eq!(results(documents, r#"[{"$project": {"a.b": 1}}]"#), "[ { a: [ { b: 2 }, [  ] ] } ]");
}

#[test]
fn lookups_follow_places_in_local_paths() {
    let lookup = |local: &str| {
        format!(
            r#"[{{"$lookup": {{"localField": "{local}", "foreignField": "f", "as": "j",
                "pipeline": [{{"$documents": [{{"f": "x"}}, {{"f": "y"}}, {{"f": null}}]}}]}}}}, {{"$project": {{"j": 1}}}}]"#
        )
    };
    let documents = r#"[{"arr": ["x", "y"]}]"#;
    assert_eq!(results(documents, &lookup("arr.0")), r#"[ { j: [ { f: "x" } ] } ]"#);
    assert_eq!(results(documents, &lookup("arr")), r#"[ { j: [ { f: "x" }, { f: "y" } ] } ]"#);
    assert_eq!(results(documents, &lookup("arr.9")), "[ { j: [ { f: null } ] } ]");
    assert_eq!(results(r#"[{"arr": []}]"#, &lookup("arr")), "[ { j: [ { f: null } ] } ]");
}

#[test]
fn a_missing_value_of_a_key_of_one_member_is_null() {
    let documents = r#"[{}, {"v": null}, {"v": 1}]"#;
    let groups =
        |id: &str| results(documents, &format!(r#"[{{"$group": {{"_id": {id}, "n": {{"$sum": 1}}}}}}]"#));
    assert_eq!(groups(r#"{"v": "$v"}"#), "[ { _id: { v: null }, n: 2 }, { _id: { v: 1 }, n: 1 } ]");
    assert_eq!(
        groups(r#"{"v": "$v", "w": "$w"}"#),
        "[ { _id: {}, n: 1 }, { _id: { v: null }, n: 1 }, { _id: { v: 1 }, n: 1 } ]"
    );
    assert_eq!(
        groups(r#"{"v": {"w": "$v"}}"#),
        "[ { _id: { v: {} }, n: 1 }, { _id: { v: { w: null } }, n: 1 }, { _id: { v: { w: 1 } }, n: 1 } ]"
    );
}

#[test]
fn the_number_of_kept_values_depends_on_the_key() {
    let stages = r#"[{"$group": {"_id": {"g": "$g"}, "m": {"$maxN": {"input": "$s",
        "n": {"$cond": [{"$eq": ["$g", "B"]}, 1, 2]}}}}}]"#;
    let documents = r#"[{"g": "A", "s": 1}, {"g": "A", "s": 2}, {"g": "B", "s": 3}, {"g": "B", "s": 4}]"#;
    assert_eq!(
        results(documents, stages),
        r#"[ { _id: { g: "A" }, m: [ 2, 1 ] }, { _id: { g: "B" }, m: [ 4 ] } ]"#
    );
}

#[test]
fn sorted_elements_compare_arrays_as_wholes() {
    let sorted =
        evaluated(r#"{"$sortArray": {"input": [{"a": [3, 1]}, {"a": [2]}, 7], "sortBy": {"a": 1}}}"#);
    assert_eq!(sorted, r#"[ { v: [ 7, { a: [ 2 ] }, { a: [ 3, 1 ] } ], t: "array" } ]"#);
    let pushed = updated(
        r#"{"$push": {"l": {"$each": [{"a": [2]}], "$sort": {"a": 1}}}}"#,
        r#"{"l": [{"a": [3, 1]}]}"#,
    );
    assert_eq!(pushed.unwrap().0, "{ l: [ { a: [ 2 ] }, { a: [ 3, 1 ] } ] }");
}

#[test]
fn an_empty_pattern_matches_before_each_character() {
    let found = |text: &str| {
        evaluated(&format!(r#"{{"$size": {{"$regexFindAll": {{"input": "{text}", "regex": ""}}}}}}"#))
    };
    assert_eq!(found("hello"), r#"[ { v: 5, t: "int" } ]"#);
    assert_eq!(found(""), r#"[ { v: 1, t: "int" } ]"#);
}

#[test]
fn patterns_know_all_scripts_where_they_ask_for_them() {
    let text = r#"{"a": "Ünïcødé ok"}"#;
    for (pattern, is_found) in [
        (r"^\w+ ok$", false),
        (r"(*UCP)^\w+ ok$", true),
        (r"(*UTF8)(*UCP)\bÜnïcødé\b", true),
        (r"(*UCP)n\b", false),
        (r"(*UCP)^[\w\s]+$", true),
    ] {
        let escaped = pattern.replace('\\', r"\\");
        assert_eq!(matches(&format!(r#"{{"a": {{"$regex": "{escaped}"}}}}"#), text), is_found, "{pattern}");
    }
}

#[test]
fn nan_meets_no_bound_of_a_schema() {
    let schema = |bound: &str| format!(r#"{{"$jsonSchema": {{"properties": {{"x": {{{bound}}}}}}}}}"#);
    for bound in [r#""maximum": 100"#, r#""minimum": 0"#] {
        assert!(!matches(&schema(bound), r#"{"x": {"@double": "NaN"}}"#), "{bound}");
        assert!(matches(&schema(bound), r#"{"x": 50}"#), "{bound}");
    }
}

#[test]
fn windows_keep_decimals_and_digits_of_longs() {
    let over = |function: &str| {
        let output = format!(r#"{{"r": {{{function}}}}}"#);
        let stages = format!(
            r#"[{{"$set": {{"d": {{"$toDecimal": "$v"}}}}}}, {{"$setWindowFields": {{"sortBy": {{"t": 1}}, "output": {output}}}}}, {{"$match": {{"t": 3}}}}, {{"$project": {{"r": 1}}}}]"#
        );
        results(
            r#"[{"t": 1, "v": {"@long": "9007199254740993"}}, {"t": 2, "v": null}, {"t": 3, "v": {"@long": "9007199254740996"}}]"#,
            &stages,
        )
    };
    let whole = r#""window": {"documents": ["unbounded", "unbounded"]}"#;
    assert_eq!(over(&format!(r#""$derivative": {{"input": "$v"}}, {whole}"#)), "[ { r: 1.5 } ]");
    assert_eq!(over(&format!(r#""$derivative": {{"input": "$d"}}, {whole}"#)), "[ { r: 1.5 } ]");
    assert_eq!(over(&format!(r#""$integral": {{"input": "$d"}}, {whole}"#)), "[ { r: 18014398509481989 } ]");
    assert_eq!(over(r#""$expMovingAvg": {"input": "$d", "N": 3}"#), "[ { r: 9007199254740994.5 } ]");
    let pair = format!(r#""$covariancePop": ["$v", {{"@double": "Infinity"}}], {whole}"#);
    assert_eq!(over(&pair), "[ { r: inf } ]");
}

#[test]
fn deviations_of_moving_windows_lose_infinities_again() {
    let stages = r#"[{"$setWindowFields": {"sortBy": {"t": 1}, "output":
        {"r": {"$stdDevPop": "$v", "window": {"documents": [-1, 0]}}}}}, {"$project": {"r": 1}}]"#;
    let documents = r#"[{"t": 1, "v": {"@double": "Infinity"}}, {"t": 2, "v": 10}, {"t": 3, "v": 20}]"#;
    assert_eq!(results(documents, stages), "[ { r: null }, { r: null }, { r: 5.0 } ]");
}

#[test]
fn updates_of_numbers_keep_a_value_that_stays_equal() {
    let cases = [
        (r#"{"$inc": {"a": 0.0}}"#, r#"{"a": {"@double": "-0.0"}}"#, "{ a: -0.0 }", false),
        (r#"{"$mul": {"a": -5}}"#, r#"{"a": 0.0}"#, "{ a: 0.0 }", false),
        (
            r#"{"$inc": {"a": 1.0}}"#,
            r#"{"a": {"@long": "9007199254740993"}}"#,
            "{ a: 9007199254740992.0 }",
            true,
        ),
        (r#"{"$inc": {"a": 0}}"#, r#"{"a": 7}"#, "{ a: 7 }", false),
    ];
    for (update, old, new, modified) in cases {
        assert_eq!(updated(update, old).unwrap(), (new.to_owned(), modified), "{update} of {old}");
    }
}

#[test]
fn a_replacement_counts_as_modified_unless_it_is_the_document() {
    let old = r#"{"_id": 1, "a": 2}"#;
    assert!(updated(r#"{"a": 2}"#, old).unwrap().1, "a replacement without an identity");
    assert!(!updated(old, old).unwrap().1, "the document itself");
    assert!(updated(r#"{"_id": 1, "a": 3}"#, old).unwrap().1);
}

#[test]
fn operators_on_arrays_refuse_paths_through_scalars() {
    for update in [
        r#"{"$pop": {"v.foo": 1}}"#,
        r#"{"$pull": {"v.foo.bar": 1}}"#,
        r#"{"$pullAll": {"v.foo": [1]}}"#,
        r#"{"$rename": {"v.foo": "w"}}"#,
    ] {
        for old in [r#"{"v": 42}"#, r#"{"v": null}"#] {
            assert_eq!(updated(update, old).unwrap_err().code(), 28, "{update} of {old}");
        }
    }
    assert_eq!(updated(r#"{"$pop": {"v.foo": 1}}"#, r#"{"v": [[1]]}"#).unwrap_err().code(), 28);
    for (update, old) in [
        (r#"{"$unset": {"v.foo": 1}}"#, r#"{"v": 42}"#),
        (r#"{"$pop": {"v.foo": 1}}"#, r#"{"w": 42}"#),
        (r#"{"$pull": {"v.7": 1}}"#, r#"{"v": [[1]]}"#),
    ] {
        assert!(!updated(update, old).unwrap().1, "{update} of {old}");
    }
}

#[test]
fn conditions_of_pull_look_into_elements_one_by_one() {
    let pulled = updated(r#"{"$pull": {"l": {"$all": [1, 2]}}}"#, r#"{"l": [[1, 2], [2, 3], [3, 2, 1], 1]}"#);
    assert_eq!(pulled.unwrap().0, "{ l: [ [ 2, 3 ], 1 ] }");
}

/// Numbers and the first text as in MongoDB's documentation; the others computed apart from this code.
#[test]
fn keys_of_hashed_indexes() {
    let decimal = |text: &str| format!(r#"{{"$toDecimal": "{text}"}}"#);
    let double = |text: &str| format!(r#"{{"$toDouble": "{text}"}}"#);
    let (half, infinite, nan) = (decimal("2.5"), decimal("-Infinity"), decimal("NaN"));
    let (beyond, far) = (double("9223372036854775808"), double("1e300"));
    let cases = [
        ("1", "5902408780260971510"),
        ("5", "4470791281878691347"),
        (r#"{"@long": "10"}"#, "7766103514953448109"),
        ("15.9", "6704049549995522780"),
        (r#""string to hash""#, "763543691661428748"),
        ("null", "2338878944348059895"),
        (r#""$nothing""#, "2338878944348059895"),
        ("true", "6405873908747105701"),
        ("[[1, 2, 3, [4, 5], 6]]", "4601754525556174086"),
        (r#"{"$literal": {"a": 1, "b": "x"}}"#, "-9120163015462966597"),
        (&half, "848411777775835583"),
        (&infinite, "4532067210535695462"),
        (&nan, "4854801880128277513"),
        (&beyond, "4532067210535695462"),
        (&far, "921523596458303250"),
    ];
    for (value, key) in cases {
        let expression = format!(r#"{{"$toHashedIndexKey": {value}}}"#);
        assert_eq!(evaluated(&expression), format!("[ {{ v: {key}, t: \"long\" }} ]"), "{value}");
    }
}

/// Runs a pipeline over documents with the members `_id` and `s` in a megabyte of memory; the code of its error.
fn code_within_a_megabyte(collation: &Collation, texts: &[String], stages: &str) -> Option<i32> {
    let stages = json(stages);
    let pipeline =
        Pipeline::parse(stages.as_array().unwrap(), &Scope::with_collation(collation.clone())).unwrap();
    let server = Server::default();
    let collections = crate::commands::Database { server: &server, name: "test" };
    let mut context =
        Context { env: env(), collections: &collections, indexes: Vec::new(), memory_bytes_max: 1 << 20 };
    let documents = texts.iter().enumerate().map(|(id, text)| {
        let mut document = Document::one("_id", id as i32);
        document.push("s", Value::string(text));
        Ok(Value::document(document))
    });
    pipeline.run(documents, &mut context).err().map(|error| error.code())
}

#[test]
fn values_that_accumulators_keep_count_as_memory() {
    // 1.5 MB of texts.
    let texts: Vec<String> = (0..300).map(|n| format!("{n}{}", "x".repeat(5000))).collect();
    let code = |accumulator: &str, id: &str| {
        let stages = format!(r#"[{{"$group": {{"_id": {id}, "v": {accumulator}}}}}]"#);
        code_within_a_megabyte(&Collation::simple(), &texts, &stages)
    };
    for operator in ["$minN", "$maxN", "$firstN", "$lastN"] {
        let of = |n: usize| format!(r#"{{"{operator}": {{"input": "$s", "n": {n}}}}}"#);
        assert_eq!(code(&of(300), "null"), Some(292), "{operator} keeps all values");
        assert_eq!(code(&of(3), "null"), None, "{operator} keeps three values");
        assert_eq!(code(&of(1), r#""$_id""#), Some(292), "{operator} keeps a value for each group");
    }
    for operator in ["$first", "$last", "$min", "$max"] {
        let accumulator = format!(r#"{{"{operator}": "$s"}}"#);
        assert_eq!(code(&accumulator, "null"), None, "{operator} keeps one value");
        assert_eq!(code(&accumulator, r#""$_id""#), Some(292), "{operator} keeps a value for each group");
    }
    let merged = |name: &str| {
        format!(r#"{{"$mergeObjects": {{"$arrayToObject": [[{{"k": "{name}", "v": "$s"}}]]}}}}"#)
    };
    assert_eq!(code(&merged("$s"), "null"), Some(292), "a member for each document");
    assert_eq!(code(&merged("one"), "null"), None, "each document replaces the member");
}

#[test]
fn sort_keys_count_as_memory_of_a_stage() {
    let collation = collation_of(&Document::one("locale", "de")).unwrap();
    // 700 KB of texts, whose sort keys take as much again.
    let texts: Vec<String> = (0..70).map(|n| format!("{n}{}", "é".repeat(5000))).collect();
    for stage in [
        r#"{"$sort": {"s": 1}}"#,
        r#"{"$group": {"_id": "$s"}}"#,
        r#"{"$group": {"_id": null, "all": {"$addToSet": "$s"}}}"#,
        r#"{"$set": {"s": ["$s"]}}, {"$group": {"_id": null, "all": {"$setUnion": "$s"}}}"#,
        r#"{"$group": {"_id": null, "top": {"$topN": {"n": 100, "sortBy": {"s": 1}, "output": "$s"}}}}"#,
        r#"{"$setWindowFields": {"partitionBy": "$s", "output": {"n": {"$sum": 1}}}}"#,
        r#"{"$setWindowFields": {"sortBy": {"s": 1}, "output": {"n": {"$sum": 1}}}}"#,
    ] {
        let stages = format!("[{stage}]");
        assert_eq!(code_within_a_megabyte(&Collation::simple(), &texts, &stages), None, "{stages}");
        assert_eq!(code_within_a_megabyte(&collation, &texts, &stages), Some(292), "{stages}");
    }
}

#[test]
fn values_that_a_set_has_already_take_no_memory() {
    let texts: Vec<String> = (0..40_000).map(|n| format!("{}{}", n % 3, "x".repeat(20))).collect();
    for accumulator in
        [r#"{"$addToSet": "$s"}"#, r#"{"$topN": {"n": 2, "sortBy": {"s": -1}, "output": "$s"}}"#]
    {
        let stages = format!(r#"[{{"$group": {{"_id": null, "all": {accumulator}}}}}]"#);
        for collation in [Collation::simple(), collation_of(&Document::one("locale", "de")).unwrap()] {
            assert_eq!(code_within_a_megabyte(&collation, &texts, &stages), None, "{stages}");
        }
    }
}

#[test]
fn a_sort_key_has_a_bound() {
    let collation = collation_of(&Document::one("locale", "en")).unwrap();
    // One character whose key is as long as that of eighteen letters.
    let text = "\u{FDFA}".repeat(2_500_000);
    let long = Value::document(Document::one("s", Value::string(text)));
    let pattern = SortPattern::parse(&document(r#"{"s": 1}"#), &collation).unwrap();
    assert_eq!(pattern.key(&long).unwrap_err().code(), 292);
    let short = Value::document(Document::one("s", Value::string("x".repeat(1 << 24))));
    assert!(pattern.key(&short).is_ok(), "a text of 16 MB in Latin letters has a key");
}

/// Binary values of the old generic subtype count with the length that is in front of their bytes.
#[test]
fn old_binary_values_have_a_length_in_front() {
    let old = r#"{"@bin": [2, "YWJjZA=="]}"#;
    assert_eq!(evaluated(&format!(r#"{{"$binarySize": {old}}}"#)), r#"[ { v: 8, t: "int" } ]"#);
    let empty = r#"{"$toLong": {"@bin": [2, ""]}}"#;
    assert_eq!(evaluated(empty), r#"[ { v: 0, t: "long" } ]"#);
    let text = format!(r#"{{"$convert": {{"input": {old}, "to": "string", "format": "base64"}}}}"#);
    assert_eq!(evaluated(&text), r#"[ { v: "BAAAAGFiY2Q=", t: "string" } ]"#);
    let plain = r#"{"@bin": [0, "YWJjZGU="]}"#;
    assert_eq!(evaluated(&format!(r#"{{"$gt": [{old}, {plain}]}}"#)), r#"[ { v: true, t: "bool" } ]"#);
    assert!(matches(&format!(r#"{{"a": {{"$bitsAllSet": {old}}}}}"#), &format!(r#"{{"a": {old}}}"#)));
    assert!(matches(r#"{"a": {"$bitsAllSet": [2, 32]}}"#, &format!(r#"{{"a": {old}}}"#)));
}

#[test]
fn an_update_may_fill_with_values_and_not_from_neighbours() {
    let filled = updated(r#"[{"$fill": {"output": {"y": {"value": 42}}}}]"#, r#"{"x": 1, "y": null}"#);
    assert_eq!(filled.unwrap(), ("{ x: 1, y: 42 }".to_owned(), true));
    let carried = json(r#"[{"$fill": {"sortBy": {"x": 1}, "output": {"y": {"method": "locf"}}}}]"#);
    assert_eq!(Update::parse(&carried, &[], &Scope::new()).unwrap_err().code(), 72);
}

/// The code with which a pipeline is refused before it runs; `None` where it is taken.
fn refused(stages: &str) -> Option<i32> {
    Pipeline::parse(json(stages).as_array().unwrap(), &Scope::new()).err().map(|error| error.code())
}

#[test]
fn forms_of_the_server_itself_are_unknown_to_clients() {
    let own = r#"{"$_internalFilterByCollation": {"filter": {}, "collation": {"locale": "simple"}}}"#;
    let parsed = Filter::parse(&document(own), &Scope::new());
    assert_eq!(parsed.err().map(|error| error.code()), Some(2));
    let forged =
        r#"{"$_internalFilterByCollation": {"filter": {}, "collation": {"locale": "simple"}}, "a": 1}"#;
    assert!(Filter::parse(&document(forged), &Scope::new()).is_err());
    let made = shardlake_mql::by_collation(&document(r#"{"a": "x"}"#), &Collation::simple());
    let made = Filter::parse(&made, &Scope::new()).unwrap();
    assert!(made.matches(&document(r#"{"a": "x"}"#), &mut env()).unwrap());
    assert_eq!(refused(r#"[{"$_internalInhibitOptimization": {}}]"#), Some(40324));
    assert_eq!(refused(r#"[{"$project": {"a": {"$_internalKeyStringValue": {}}}}]"#), Some(31325));
}

#[test]
fn metadata_that_no_stage_made_is_refused() {
    for stages in [
        r#"[{"$sort": {"s": {"$meta": "textScore"}}}]"#,
        r#"[{"$sort": {"d": {"$meta": "geoNearDistance"}}}]"#,
        r#"[{"$project": {"s": {"$meta": "textScore"}}}]"#,
        r#"[{"$set": {"s": {"$add": [1, {"$meta": "textScore"}]}}}]"#,
        r#"[{"$match": {"a": 1}}, {"$project": {"p": {"$meta": "geoNearPoint"}}}]"#,
        r#"[{"$group": {"_id": {"$meta": "textScore"}}}]"#,
    ] {
        assert_eq!(refused(stages), Some(40218), "{stages}");
    }
    for stages in [
        r#"[{"$geoNear": {"near": [0, 0]}}, {"$sort": {"d": {"$meta": "geoNearDistance"}}}]"#,
        r#"[{"$project": {"s": {"$literal": {"$meta": "textScore"}}}}]"#,
        r#"[{"$sort": {"v": 1, "r": {"$meta": "randVal"}}}]"#,
        r#"[{"$group": {"_id": null}}, {"$project": {"s": {"$meta": "textScore"}}}]"#,
    ] {
        assert_eq!(refused(stages), None, "{stages}");
    }
    let fields = document(r#"{"s": {"$meta": "textScore"}}"#);
    let found = shardlake_mql::FindProjection::parse(&fields, &Scope::new());
    assert_eq!(found.err().map(|error| error.code()), Some(40218));
    let order = document(r#"{"s": {"$meta": "textScore"}}"#);
    let sorted = SortPattern::parse(&order, &Collation::simple());
    assert_eq!(sorted.err().map(|error| error.code()), Some(40218));
}

#[test]
fn a_text_query_is_refused_wherever_it_stands() {
    let text = r#"{"$text": {"$search": "x"}}"#;
    let code_of = |filter: &str| {
        Filter::parse_ordering(&document(filter), &Scope::new()).err().map(|error| error.code())
    };
    assert_eq!(code_of(text), Some(27));
    assert_eq!(code_of(&format!(r#"{{"$or": [{text}, {{"a": 1}}]}}"#)), Some(27));
    assert_eq!(code_of(r#"{"a": {"$near": [0, 0]}, "$text": {"$search": "x"}}"#), Some(2));
    assert_eq!(code_of(&format!(r#"{{"a": {{"$elemMatch": {text}}}}}"#)), Some(2));
    assert_eq!(refused(&format!(r#"[{{"$match": {text}}}]"#)), Some(27));
    let update = json(r#"{"$set": {"a.$[e]": 1}}"#);
    let update = Update::parse(&update, &[json(text)], &Scope::new());
    assert_eq!(update.err().map(|error| error.code()), Some(2));
}

#[test]
fn constant_arguments_of_stages_may_be_any_expression_without_fields() {
    let bucket = |boundary: &str| {
        let stage = format!(r#"[{{"$bucket": {{"groupBy": "$a", "boundaries": [0, {boundary}]}}}}]"#);
        refused(&stage)
    };
    assert_eq!(bucket(r#"{"$cond": [true, 5, 6]}"#), None);
    assert_eq!(bucket(r#"{"$cond": [true, 5, "$b"]}"#), Some(40191));
}

/// Powers at the ends of decimals, as correctly rounded by another implementation of 34 digits.
#[test]
fn powers_of_the_greatest_and_the_least_decimals() {
    for (base, exponent, power) in [
        ("MAX", "1", "9.999999999999999999999999999999999E+6144"),
        ("MAX", "-1", "1.0000000000000000000000000000000E-6145"),
        ("MAX", "2", "Infinity"),
        ("MAX", "0.5", "3.162277660168379331998893544432718E+3072"),
        ("MAX", "0", "1"),
        ("-MAX", "3", "-Infinity"),
        ("-MAX", "2", "Infinity"),
        ("-MAX", "-1", "-1.0000000000000000000000000000000E-6145"),
        ("MIN", "1", "1E-6176"),
        ("MIN", "2", "0E-6176"),
        ("MIN", "-1", "Infinity"),
        ("MIN", "0.5", "1.000000000000000000000000000000000E-3088"),
        ("2", "MAX", "Infinity"),
        ("0.5", "MAX", "0E-6176"),
        ("-2", "MAX", "Infinity"),
        ("1", "MAX", "1"),
        ("-1", "MAX", "1"),
        ("10", "6144", "1.000000000000000000000000000000000E+6144"),
        ("10", "6145", "Infinity"),
        ("10", "-6176", "1E-6176"),
        ("10", "-6177", "0E-6176"),
        ("1.0000000001", "MAX", "Infinity"),
        ("MAX", "1E-40", "1.000000000000000000000000000000000"),
        ("MAX", "MAX", "Infinity"),
        ("MIN", "MAX", "0E-6176"),
        ("0", "MAX", "0"),
        ("2", "20000", "3.980276840337966592354307206191202E+6020"),
        ("2", "20500", "Infinity"),
        ("0.1", "6176", "1E-6176"),
        ("-MAX", "-3", "0E-6176"),
        ("3", "7", "2187"),
        ("1E+3072", "2", "1.000000000000000000000000000000000E+6144"),
        ("1E+3073", "2", "Infinity"),
        ("MAX", "-0.5", "3.162277660168379331998893544432719E-3073"),
        ("MIN", "-2", "Infinity"),
    ] {
        let named = |text: &str| {
            let text =
                text.replace("MAX", "9.999999999999999999999999999999999E+6144").replace("MIN", "1E-6176");
            format!(r#"{{"$toDecimal": "{text}"}}"#)
        };
        let found = format!(r#"{{"$pow": [{}, {}]}}"#, named(base), named(exponent));
        let is_equal = format!(r#"{{"$eq": [{found}, {}]}}"#, named(power));
        let told = evaluated(&found);
        assert!(evaluated(&is_equal).contains("true"), "{base} to the {exponent} is {power}, not {told}");
    }
}
