//! Reports as tables for people.
//!
//! Fields that a report lacks are left out, so that a newer or older server can be shown too.

use std::fmt::Write;

use serde_json::Value;

use super::descriptions::counted;
use super::evidence;
use super::values::{members, number, text};
use crate::number_text::{bytes, thousands};

/// Hexadecimal digits of a bound that are shown; the rest rarely distinguishes partitions.
const BOUND_DIGITS: usize = 8;
const KEYS_SHOWN: usize = 4;
/// Characters of a key that are shown.
const KEY_CHARACTERS: usize = 32;
/// Share of the maximum size of a logical partition below which its size is not shown.
const NOTABLE_SHARE: f64 = 0.01;
/// Characters of a line of text.
const LINE: usize = 110;

/// Every container in one line.
pub fn of_account(report: &Value) -> String {
    let mut rows =
        vec![["container", "partitions", "items", "size", "generation", "relocation"].map(str::to_owned)];
    for container in members(&report["containers"]) {
        rows.push([
            format!("{}/{}", text(&container["database"]), text(&container["container"])),
            thousands(number(&container["partitions"])),
            thousands(number(&container["items"])),
            bytes(number(&container["sizeBytes"])),
            number(&container["generation"]).to_string(),
            match text(&container["relocation"]["kind"]) {
                "" => "-".to_owned(),
                kind => format!("{kind}: {}", text(&container["relocation"]["step"])),
            },
        ]);
    }
    let mut out = String::new();
    for line in aligned(&rows, 1) {
        let _infallible = writeln!(out, "{line}");
    }
    out
}

pub fn of_container(report: &Value) -> String {
    let mut out = String::new();
    head(&mut out, report);
    let rows = rows(report);
    let lines = aligned(&rows, 2);
    for (line, partition) in
        lines.iter().zip(std::iter::once(&Value::Null).chain(members(&report["partitions"])))
    {
        let _infallible = writeln!(out, "{line}");
        notes(&mut out, partition, number(&report["logicalPartitionSizeBytesMax"]));
    }
    relocations(&mut out, report);
    findings(&mut out, report);
    out
}

fn head(out: &mut String, report: &Value) {
    let throughput = &report["throughput"];
    let mut words = match throughput["ruPerSecond"].as_u64() {
        Some(units) => format!("{} RU/s {}", thousands(units), text(&throughput["mode"])),
        None => text(&throughput["mode"]).to_owned(),
    };
    if let Some(scaled) = throughput["scaledToRuPerSecond"].as_u64() {
        let _infallible = write!(words, " scaled to {}", thousands(scaled));
    }
    if throughput["sharedByDatabase"].as_bool() == Some(true) {
        words.push_str(" shared by the database");
    }
    words.push_str(if throughput["enforced"].as_bool() == Some(true) {
        ", enforced"
    } else {
        ", not enforced"
    });
    let paths: Vec<&str> = members(&report["partitionKey"]).map(text).collect();
    let _infallible = writeln!(
        out,
        "{}/{}: {words}\nkey {}; {}, {}; {}, generation {}\n",
        text(&report["database"]),
        text(&report["container"]),
        paths.join(", "),
        counted(number(&report["items"]), "item"),
        bytes(number(&report["sizeBytes"])),
        counted(members(&report["partitions"]).count() as u64, "partition"),
        number(&report["generation"]),
    );
}

fn rows(report: &Value) -> Vec<[String; 12]> {
    let names = [
        "id",
        "range",
        "shard",
        "items",
        "size",
        "full",
        "budget",
        "used",
        "share",
        "peak",
        "throttled",
        "latency",
    ];
    let mut rows = vec![names.map(str::to_owned)];
    let max = number(&report["partitionSizeBytesMax"]).max(1);
    for partition in members(&report["partitions"]) {
        let (load, size) = (&partition["load"], number(&partition["sizeBytes"]));
        let per_second =
            |value: &Value| value.as_f64().map_or("-".to_owned(), |units| format!("{units:.0}/s"));
        let share =
            |value: &Value| value.as_f64().map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        rows.push([
            text(&partition["id"]).to_owned(),
            format!("{}..{}", bound(&partition["minInclusive"]), bound(&partition["maxExclusive"])),
            number(&partition["shard"]).to_string(),
            thousands(number(&partition["items"])),
            bytes(size),
            format!("{:.1} %", size as f64 * 100.0 / max as f64),
            per_second(&partition["budget"]["ruPerSecond"]),
            per_second(&load["ruPerSecond"]),
            share(&load["share"]),
            share(&load["normalizedRu"]),
            share(&load["throttledShare"]),
            load["latencyMeanMs"].as_f64().map_or("-".to_owned(), |mean| format!("{mean:.2} ms")),
        ]);
    }
    rows
}

/// The lines below a partition's row.
fn notes(out: &mut String, partition: &Value, logical_max: u64) {
    let mut note = |name: &str, words: String| {
        if !words.is_empty() {
            let _infallible = writeln!(out, "      {name:<9}{words}");
        }
    };
    let parents: Vec<&str> = members(&partition["parents"]).map(text).collect();
    note("from", parents.join(", "));
    let key = |value: &Value| shortened(text(&value["key"]), KEY_CHARACTERS);
    let hottest = members(&partition["hottestKeys"]).take(KEYS_SHOWN);
    let hottest: Vec<String> = hottest
        .map(|hot| format!("{} {:.0} %", key(hot), hot["share"].as_f64().unwrap_or_default() * 100.0))
        .collect();
    note("hottest", hottest.join("  "));
    let share = |large: &Value| number(&large["sizeBytes"]) as f64 / logical_max.max(1) as f64;
    let largest: Vec<String> = members(&partition["largestKeys"])
        .take(KEYS_SHOWN)
        .filter(|large| share(large) >= NOTABLE_SHARE)
        .map(|large| {
            let size = bytes(number(&large["sizeBytes"]));
            format!("{} {size}, {:.0} % of its limit", key(large), share(large) * 100.0)
        })
        .collect();
    note("largest", largest.join("  "));
    note("next", text(&partition["next"]).to_owned());
}

fn relocations(out: &mut String, report: &Value) {
    let last = &report["lastRelocation"];
    match (text(&last["outcome"]), text(&last["reason"])) {
        ("", _) => {}
        (_, "") => {
            let ids = |value| members(value).map(text).collect::<Vec<_>>().join(", ");
            let _infallible = writeln!(
                out,
                "\nlast: {} of {} into {}, {} in {} ms, writers held for {:.1} ms",
                text(&last["kind"]),
                ids(&last["sources"]),
                ids(&last["targets"]),
                counted(number(&last["items"]), "item"),
                number(&last["durationMs"]),
                last["pauseMs"].as_f64().unwrap_or_default(),
            );
        }
        (outcome, reason) => {
            let _infallible = writeln!(out, "\nlast: {outcome}: {reason}");
        }
    }
}

fn findings(out: &mut String, report: &Value) {
    for finding in members(&report["findings"]) {
        let evidence: Vec<String> = members(&finding["evidence"]).map(evidence::of).collect();
        let is_over = !finding["until"].is_null();
        let summary = match is_over {
            true => format!("over: {}", text(&finding["summary"])),
            false => text(&finding["summary"]).to_owned(),
        };
        let _infallible = writeln!(out, "\n{}", wrapped(&summary, ""));
        if !evidence.is_empty() {
            let _infallible =
                writeln!(out, "{}", wrapped(&format!("evidence: {}", evidence.join(", ")), "  "));
        }
        if !is_over {
            let _infallible =
                writeln!(out, "{}", wrapped(&format!("remedy: {}", text(&finding["remedy"])), "  "));
        }
    }
}

/// Lines of at most [`LINE`] characters, each after `indent`; a longer word has its own line.
pub fn wrapped(words: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        let separator = match length {
            0 => indent.to_owned(),
            _ if length + 1 + width > LINE => format!("\n{indent}"),
            _ => " ".to_owned(),
        };
        length = if separator == " " { length + 1 + width } else { indent.len() + width };
        out.push_str(&separator);
        out.push_str(word);
    }
    out
}

/// Columns as wide as their widest cell; the first `left` of them begin at the left, the others end at the right.
/// All rows have as many cells as the first.
pub fn aligned<R: AsRef<[String]>>(rows: &[R], left: usize) -> Vec<String> {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width =
        |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &R| {
        let cells =
            row.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column < left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn bound(value: &Value) -> String {
    match text(value) {
        "" => "0".to_owned(),
        digits => shortened(digits, BOUND_DIGITS),
    }
}

fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_wrapped_between_words() {
        assert_eq!(wrapped("a b", "  "), "  a b");
        let long = wrapped(&"word ".repeat(50), "  ");
        assert!(long.lines().all(|line| line.starts_with("  word") && line.len() <= LINE), "{long}");
        assert_eq!(long.lines().count(), 3);
    }

    #[test]
    fn a_report_becomes_a_table_with_what_is_known() {
        let report = json!({
            "database": "shop", "container": "orders", "partitionKey": ["/tenant"], "generation": 3,
            "items": 1200, "sizeBytes": 3_000_000, "partitionSizeBytesMax": 50_000_000,
            "logicalPartitionSizeBytesMax": 20_000_000,
            "throughput": { "mode": "manual", "ruPerSecond": 1000, "enforced": true },
            "partitions": [
                { "id": "1", "parents": ["0"], "minInclusive": "", "maxExclusive": "1FFFFFFFFFFFFFFF", "shard": 0,
                  "items": 1000, "sizeBytes": 2_500_000, "budget": { "ruPerSecond": 500.0 },
                  "load": { "ruPerSecond": 490.4, "share": 0.98, "normalizedRu": 1.0, "throttledShare": 0.123,
                            "latencyMeanMs": 1.5 },
                  "hottestKeys": [{ "key": "[\"B\"]", "share": 0.91 }],
                  "largestKeys": [{ "key": "[\"A\"]", "sizeBytes": 2_000_000 }, { "key": "[\"C\"]", "sizeBytes": 2_000 }],
                  "next": "stays: it holds 5 % of what a partition may" },
                { "id": "2", "minInclusive": "1FFFFFFFFFFFFFFF", "maxExclusive": "FF", "shard": 1, "items": 200, "sizeBytes": 500_000 }
            ],
            "findings": [{ "summary": "Tenant B is hot.", "evidence": [{ "name": "keyShare", "value": 0.9125 }, { "name": "key", "value": "B" }],
                           "remedy": "Another key.", "since": 5000, "until": null },
                         { "summary": "Tenant C was hot.", "evidence": [], "remedy": "None.", "since": 5000, "until": 9000 }],
        });
        let shown = of_container(&report);
        for line in [
            "shop/orders: 1,000 RU/s manual, enforced",
            "1   0..1FFFFFFF…       0  1,000    2.4 MiB  5.0 %   500/s  490/s  98.0 %  100.0 %     12.3 %  1.50 ms",
            "      hottest  [\"B\"] 91 %",
            "      largest  [\"A\"] 1.9 MiB, 10 % of its limit\n",
            "2   1FFFFFFF…..FF      1    200  488.3 KiB  1.0 %       -      -       -        -          -        -",
            "Tenant B is hot.\n  evidence: share of the key 91 %, key B\n  remedy: Another key.",
            "\nover: Tenant C was hot.\n",
        ] {
            assert!(shown.contains(line), "{line}\nin\n{shown}");
        }
    }
}
