//! The differences between a recorded answer and the server's.

use serde_json::Value;
use shardlake_document::{ParseLimits, json_of_binary};
use shardlake_hybrid_row::is_hybrid_row;

use super::recording::{Exchange, Recorded};
use crate::batch::statuses;
use crate::harness::{Answer, json_of_rows};

/// A body as JSON, whichever form it has. A body that was too long to keep is none.
pub fn json_of(recorded: &Recorded) -> Option<Value> {
    let body = &recorded.body;
    match body.first()? {
        _ if recorded.is_truncated => None,
        0x80 => serde_json::from_slice(&json_of_binary(body, &ParseLimits::default()).ok()?).ok(),
        _ if is_hybrid_row(body) => Some(json_of_rows(body)),
        _ => serde_json::from_slice(body).ok(),
    }
}

pub fn differences(exchange: &Exchange, answer: &Answer) -> Vec<String> {
    let (request, recorded) = (&exchange.request, &exchange.response);
    // Today's answer to HybridRow was a refusal, and the recording also has the status of the service.
    if is_hybrid_row(&request.body) && recorded.status == 501 {
        return differences_from_the_service(exchange, answer);
    }
    // Whether a request finds its budget spent depends on times that the recording does not have.
    let is_throttled = exchange.check.contains("429") && [200, 201, 429].contains(&answer.status);
    if is_throttled && [200, 201, 429].contains(&recorded.status) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if answer.status != recorded.status {
        found.push(format!(
            "status {} and not {}: {}",
            answer.status,
            recorded.status,
            start_of(&answer.text)
        ));
        return found;
    }
    let substatus = recorded.header("x-ms-substatus").map_or(0, |text| text.parse().expect("a number"));
    if answer.substatus() != substatus {
        found.push(format!("substatus {} and not {substatus}", answer.substatus()));
    }
    if recorded.is_truncated {
        return found;
    }
    if recorded.body.first() == Some(&0x80) && !answer.is_binary
        || is_hybrid_row(&recorded.body) != answer.is_rows
    {
        found.push(format!("another format: {}", start_of(&answer.text)));
    }
    match (json_of(recorded), answer.json_body()) {
        (Some(theirs), Some(own)) => found.extend(differences_of_bodies(&theirs, &own)),
        (None, None) => {}
        (theirs, _) => found.push(format!(
            "only one body is JSON, and not the {}",
            if theirs.is_some() { "own" } else { "recorded" }
        )),
    }
    found
}

fn differences_from_the_service(exchange: &Exchange, answer: &Answer) -> Vec<String> {
    let Some(want) = &exchange.want else {
        let is_answered = matches!(answer.status, 200 | 207) && answer.is_rows;
        return if is_answered {
            Vec::new()
        } else {
            vec![format!("status {}: {}", answer.status, start_of(&answer.text))]
        };
    };
    if want.status.is_some_and(|status| status != answer.status) {
        return vec![format!(
            "status {} and not {:?}: {}",
            answer.status,
            want.status,
            start_of(&answer.text)
        )];
    }
    match &want.operations {
        Some(wanted) if statuses(answer) != *wanted => {
            vec![format!("operations {:?} and not {wanted:?}", statuses(answer))]
        }
        _ => Vec::new(),
    }
}

fn differences_of_bodies(theirs: &Value, own: &Value) -> Option<String> {
    // Recordings are samples: rows of requests that were not kept are not there.
    let rows = |value: &Value| {
        value.as_object().and_then(|members| members.values().find_map(Value::as_array).map(Vec::len))
    };
    let has_other_rows = rows(theirs).is_some() && rows(theirs) != rows(own);
    let same_members = || names(theirs) == names(own);
    let (theirs_shape, own_shape) = (shape(theirs), shape(own));
    (theirs_shape != own_shape && !(has_other_rows && same_members()))
        .then(|| format!("the shape {} and not {}", start_of(&own_shape), start_of(&theirs_shape)))
}

fn names(value: &Value) -> Option<Vec<&String>> {
    let mut names: Vec<_> = value.as_object()?.keys().collect();
    names.sort();
    Some(names)
}

/// Names and types of members. Results of operations have their status and substatus, too.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(elements) if elements.first().is_some_and(|first| first.get("statusCode").is_some()) => {
            let result = |result: &Value| {
                format!("{}/{}{}", result["statusCode"], result["subStatusCode"], shape(result))
            };
            elements.iter().map(result).collect()
        }
        Value::Array(elements) => {
            let shapes: std::collections::BTreeSet<_> = elements.iter().map(shape).collect();
            format!("[{}]", shapes.into_iter().collect::<Vec<_>>().join("|"))
        }
        Value::Object(members) => {
            let mut shapes: Vec<_> =
                members.iter().map(|(name, member)| format!("{name}:{}", shape(member))).collect();
            shapes.sort();
            format!("{{{}}}", shapes.join(","))
        }
    }
}

fn start_of(text: &str) -> String {
    text.chars().take(400).collect()
}

/// Differences that are found, and samples that pass.
#[test]
fn changed_answers_are_found() {
    let exchange = |body: &str| Exchange {
        seq: 1,
        at_milliseconds: 0,
        check: String::new(),
        request: Recorded::default(),
        response: Recorded { status: 207, body: body.into(), ..Recorded::default() },
        want: None,
    };
    let answer = |status: u16, text: &str| Answer {
        status,
        headers: http::HeaderMap::new(),
        text: text.to_owned(),
        is_binary: false,
        is_rows: false,
    };
    let is_equal = |recorded: &str, own: &str| differences(&exchange(recorded), &answer(207, own)).is_empty();
    let results = r#"[{"statusCode":424},{"statusCode":409,"message":"a"}]"#;
    assert!(is_equal(results, r#"[{"statusCode":424},{"statusCode":409,"message":"b"}]"#));
    for other in [
        r#"[{"statusCode":424},{"statusCode":412,"message":"a"}]"#,
        r#"[{"statusCode":424},{"statusCode":409}]"#,
        r#"[{"statusCode":424},{"statusCode":409,"message":1}]"#,
        r#"[{"statusCode":424},{"statusCode":409,"subStatusCode":1,"message":"a"}]"#,
        r#"[{"statusCode":409,"message":"a"},{"statusCode":424}]"#,
        r#"[{"statusCode":424}]"#,
        "",
    ] {
        assert!(!is_equal(results, other), "{other}");
    }
    assert!(!differences(&exchange(results), &answer(200, results)).is_empty());
    let page = r#"{"Documents":[{"id":"a"}],"_count":1}"#;
    assert!(is_equal(page, r#"{"Documents":[{"id":"b"},{"id":"c","n":1}],"_count":2}"#), "another sample");
    assert!(!is_equal(page, r#"{"Documents":[{"id":1}],"_count":1}"#));
    assert!(!is_equal(page, r#"{"Documents":[{"id":"a"},{"id":"b"}]}"#));
    let mut truncated = exchange(results);
    truncated.response.is_truncated = true;
    assert!(differences(&truncated, &answer(207, "[]")).is_empty());
}
