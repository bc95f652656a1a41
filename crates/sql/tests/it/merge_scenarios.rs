//! Recorded scenarios of merges over several partitions: rows as partitions answer them, and the order in which they come out.
//!
//! Each runs twice: the recorded rows fed as they are, and the items behind them queried page by page.
#![allow(clippy::unwrap_used)] // a test may fail by panicking
#![allow(clippy::print_stderr)] // reports skipped comparisons

use crate::support::{Items, UNLIMITED, merged_rows, plan, plan_with, texts};
use shardlake_document::{ParseLimits, Value};
use shardlake_sql::{MergedPage, Merger, PageLimits, Rows, SqlError};
use shardlake_testkit::shared_directory;

/// Expectations of scenarios that a merge inside the server does not meet, with the reason.
const EXCEPTIONS: [(&str, &str); 8] = [
    (
        "complex_array_order_by_values_rejected",
        "clients refuse arrays as sort keys because they cannot know the partitions' order of them; ours is known: all alike, behind strings",
    ),
    ("complex_object_order_by_values_rejected", "as with arrays: all objects are alike, behind arrays"),
    ("formatted_resume_filter_asc_desc_multi_column", "a shape of request between a client and its gateway"),
    ("split_before_first_row", "nothing is handed on before the first row"),
    (
        "split_after_resume",
        "a merge at one of its sources must find as many as before; the caller starts anew",
    ),
    ("malformed_token_direction_count_mismatch", "the shape of a client's token; ours is in the unit tests"),
    ("malformed_token_invalid_range", "the shape of a client's token; ours is in the unit tests"),
    ("unsupported_combination_distinct_group_by_aggregates", "DISTINCT with ORDER BY is supported"),
];

#[test]
fn recorded_merges_come_out_in_the_recorded_order() {
    let name = "recorded_merges_come_out_in_the_recorded_order";
    let Some(directory) = shared_directory("conformance", name) else { return };
    let text = std::fs::read(directory.join("merge/streaming_order_by_scenarios.json")).unwrap();
    let file = parse(&text);
    let (mut compared, mut excepted) = (0, 0);
    for scenario in list(&file, "scenarios") {
        let id = text_of(scenario, "id");
        if let Some((_, reason)) = EXCEPTIONS.iter().find(|(exception, _)| *exception == id) {
            eprintln!("not compared: {id}: {reason}");
            excepted += 1;
            continue;
        }
        compared += 1;
        match scenario.get("expectedError").and_then(|error| error.get("category")).and_then(Value::as_str) {
            None if scenario.get("mock") == Some(&Value::Null) => check_documents(scenario, id),
            None => {
                check_rows(scenario, id);
                check_items(scenario, id);
            }
            Some("service_order_by_envelope_invalid") => {
                assert_eq!(merged_in_one_page(scenario).unwrap_err(), SqlError::UnmergeableRow, "{id}");
            }
            Some("client_continuation_token_shape_mismatch") => check_foreign_state(scenario),
            Some("client_unsupported_query_feature") => check_unsupported(scenario),
            Some(other) => panic!("{id}: {other}"),
        }
    }
    assert!(compared >= 18, "only {compared} scenarios");
    assert_eq!(excepted, EXCEPTIONS.len());
}

/// The state of a merge that drains one source after the other is invalid for an ordered merge.
fn check_foreign_state(scenario: &Value) {
    let drained = plan("SELECT * FROM c").unwrap();
    let one_row = PageLimits { rows: 1, size_bytes: 100 };
    let mut merger = Merger::new(&drained.info, "SELECT * FROM c", 1, one_row, None).unwrap();
    let mut rows = Rows::default();
    ["1", "2"].iter().for_each(|row| rows.push_text(row.as_bytes()));
    merger.feed(0, &rows, None).unwrap();
    let state = merger.take_page().unwrap().state.unwrap();
    let text = text_of(scenario.get("query").unwrap(), "text");
    let ordered = plan(text).unwrap();
    let refused = Merger::new(&ordered.info, text, 1, one_row, Some(&state)).err();
    assert_eq!(refused, Some(SqlError::InvalidState));
}

fn check_unsupported(scenario: &Value) {
    let text = text_of(scenario.get("query").unwrap(), "text");
    let mut info = plan(text).unwrap().info;
    info.has_non_streaming_order_by = true;
    let refused = Merger::new(&info, text, 1, UNLIMITED, None).err();
    assert!(matches!(refused, Some(SqlError::Unsupported { .. })), "{refused:?}");
}

/// Only the documents are recorded: they are spread by their partition keys.
fn check_documents(scenario: &Value, id: &str) {
    let text = text_of(scenario.get("query").unwrap(), "text");
    let mut partitions: Vec<(Option<&Value>, Vec<Value>)> = vec![];
    for document in list(scenario, "documents") {
        match partitions.iter_mut().find(|(key, _)| *key == document.get("pk")) {
            Some((_, documents)) => documents.push(document.clone()),
            None => partitions.push((document.get("pk"), vec![document.clone()])),
        }
    }
    let sources: Vec<Items> = partitions.iter().map(|(_, documents)| Items::new(documents)).collect();
    let merged = merged_rows(text, &[], &sources, UNLIMITED).unwrap();
    assert_eq!(ids(&merged), expected(scenario), "{id}");
}

/// The recorded rows, all in one page. Rows after a checkpoint are part of that page.
fn check_rows(scenario: &Value, id: &str) {
    let page = merged_in_one_page(scenario).unwrap();
    assert_eq!(page.state, None);
    assert_eq!(ids(&texts(&page.rows))[out_before(scenario)..], expected(scenario), "{id}");
}

fn merged_in_one_page(scenario: &Value) -> Result<MergedPage, SqlError> {
    let text = text_of(scenario.get("query").unwrap(), "text");
    let plan = plan_with(text, &parameters(scenario)).unwrap();
    let partitions = list(scenario.get("mock").unwrap(), "partitions");
    let mut merger = Merger::new(&plan.info, text, partitions.len(), UNLIMITED, None).unwrap();
    for (source, partition) in partitions.iter().enumerate() {
        let pages = list(partition, "pages");
        for (index, page) in pages.iter().enumerate() {
            assert!(merger.needs().contains(&source));
            let mut rows = Rows::default();
            for row in list(page, "rows") {
                rows.push_text(row.to_json().unwrap().as_bytes());
            }
            let next = (index + 1 < pages.len()).then(|| vec![index as u8]);
            merger.feed(source, &rows, next)?;
        }
    }
    assert!(merger.needs().is_empty());
    merger.take_page()
}

fn parameters(scenario: &Value) -> Vec<(String, Value)> {
    let parameters = list(scenario.get("query").unwrap(), "parameters").iter();
    parameters
        .map(|parameter| (text_of(parameter, "name").to_owned(), parameter.get("value").unwrap().clone()))
        .collect()
}

/// Items with the recorded sort keys, in pages of each size; a checkpoint is reached by a page of its own.
fn check_items(scenario: &Value, id: &str) {
    let text = text_of(scenario.get("query").unwrap(), "text");
    let columns = list(scenario.get("query").unwrap(), "columns");
    let partitions: Vec<Items> = list(scenario.get("mock").unwrap(), "partitions")
        .iter()
        .map(|partition| Items::new(&items_of(partition, columns, list(scenario, "documents"))))
        .collect();
    let before = out_before(scenario);
    let mut sizes: Vec<usize> =
        list(scenario, "pageSizes").iter().map(|size| size.as_number().unwrap().as_f64() as usize).collect();
    sizes.extend((before > 0).then_some(before));
    for rows in sizes {
        let merged =
            merged_rows(text, &parameters(scenario), &partitions, PageLimits { rows, size_bytes: 1 << 20 })
                .unwrap();
        assert_eq!(ids(&merged)[before..], expected(scenario), "{id} in pages of {rows}");
    }
}

type Members = Vec<(String, Value)>;

/// One item for each resource id, the document of that name if it is recorded, with a tag for each of its rows.
fn items_of(partition: &Value, columns: &[Value], documents: &[Value]) -> Vec<Value> {
    let mut items: Vec<(String, Members, Vec<Value>)> = vec![];
    for row in list(partition, "pages").iter().flat_map(|page| list(page, "rows")) {
        let (rid, payload) = (text_of(row, "rid").to_owned(), row.get("payload").unwrap().clone());
        if let Some((last, _, tags)) = items.last_mut()
            && *last == rid
        {
            tags.push(payload);
            continue;
        }
        let id = payload.get("id").unwrap().clone();
        let document = documents.iter().find(|document| document.get("id") == Some(&id));
        let mut members = match document {
            Some(Value::Object(members)) => members.clone(),
            _ => vec![("id".to_owned(), id)],
        };
        for (column, item) in columns.iter().zip(list(row, "orderByItems")) {
            let name = text_of(column, "expression").trim_start_matches("c.").to_owned();
            if let (Some(value), None) = (item.get("item"), document) {
                members.push((name, value.clone()));
            }
        }
        items.push((rid, members, vec![payload]));
    }
    let with_tags = |(_, mut members, tags): (String, Members, Vec<Value>)| {
        members.push(("tags".to_owned(), Value::Array(tags)));
        Value::Object(members)
    };
    items.into_iter().map(with_tags).collect()
}

/// Rows before the checkpoint.
fn out_before(scenario: &Value) -> usize {
    let skip = scenario.get("checkpoint").and_then(|checkpoint| checkpoint.get("skipCount"));
    skip.and_then(Value::as_number).map_or(0, |skip| skip.as_f64() as usize)
}

fn expected(scenario: &Value) -> Vec<String> {
    list(scenario, "expectedIds").iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

fn ids(rows: &[String]) -> Vec<String> {
    rows.iter().map(|row| text_of(&parse(row.as_bytes()), "id").to_owned()).collect()
}

fn parse(text: &[u8]) -> Value {
    Value::from_json(text, &ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() }).unwrap()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let Some(Value::Array(elements)) = value.get(name) else { panic!("a list of {name}") };
    elements
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap()
}
