//! The numbers behind a finding, with descriptions and units for people. Programs read the names (`--json`).

use serde_json::Value;

use super::values::text;
use crate::number_text::{bytes, thousands};

#[derive(Debug, Clone, Copy)]
enum Unit {
    RequestUnits,
    /// A share of one.
    Share,
    Bytes,
    Seconds,
    Times,
    Count,
}

use Unit::{Bytes, Count, RequestUnits, Seconds, Share, Times};

/// Name in the report, description, unit.
const KNOWN: [(&str, &str, Unit); 22] = [
    ("ruPerSecond", "load", RequestUnits),
    ("keyRuPerSecond", "of the key", RequestUnits),
    ("scanRuPerSecond", "of queries and feeds", RequestUnits),
    ("wantedRuPerSecond", "wanted", RequestUnits),
    ("budgetRuPerSecond", "budget", RequestUnits),
    ("throughput", "throughput", RequestUnits),
    ("keyShare", "share of the key", Share),
    ("loadShareBelow", "load below the median", Share),
    ("scanShare", "share of queries and feeds", Share),
    ("throttledShare", "throttled", Share),
    ("writeShare", "writes", Share),
    ("highestUsedShare", "busiest partition at", Share),
    ("shareOfLogicalLimit", "of what a key may hold", Share),
    ("shareOfPartitionLimit", "of what a partition may hold", Share),
    ("bytes", "stored", Bytes),
    ("keyBytes", "stored under the key", Bytes),
    ("meanBytesOfOthers", "others on average", Bytes),
    ("secondsBetweenLeaders", "between leaders", Seconds),
    ("timesFairShare", "fair share", Times),
    ("ascendingLeaders", "leading keys in sequence", Count),
    ("keysTouched", "keys touched", Count),
    ("partitionsReached", "partitions reached", Count),
];

/// One piece of evidence: `throttled 12 %`.
pub fn of(evidence: &Value) -> String {
    let name = text(&evidence["name"]);
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    match (evidence["value"].as_f64(), known) {
        (Some(number), Some((_, words, unit))) => format!("{words} {}", with_unit(number, *unit)),
        (Some(number), None) => format!("{} {}", spelled(name), count(number)),
        (None, _) => format!("{} {}", spelled(name), text(&evidence["value"])),
    }
}

fn with_unit(number: f64, unit: Unit) -> String {
    match unit {
        RequestUnits => format!("{} RU/s", short(number)),
        Share => format!("{} %", short(number * 100.0)),
        Bytes => bytes(number.max(0.0) as u64),
        Seconds => format!("{} s", short(number)),
        Times => format!("× {}", short(number)),
        Count => count(number),
    }
}

fn count(number: f64) -> String {
    if number.fract() == 0.0 && number >= 0.0 { thousands(number as u64) } else { short(number) }
}

/// A number with one decimal where it is small and not whole.
fn short(number: f64) -> String {
    match number.abs() {
        size if size < 9.95 && number.fract() != 0.0 => format!("{number:.1}"),
        _ if number >= 0.0 => thousands(number.round() as u64),
        _ => format!("{number:.0}"),
    }
}

/// `loadMedian` as `load median`.
fn spelled(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push(' ');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_words_and_units() {
        for (name, value, words) in [
            ("ruPerSecond", json!(4.404), "load 4.4 RU/s"),
            ("budgetRuPerSecond", json!(12_000.0), "budget 12,000 RU/s"),
            ("throttledShare", json!(0.1234), "throttled 12 %"),
            ("throttledShare", json!(0.0), "throttled 0 %"),
            ("keyShare", json!(0.004), "share of the key 0.4 %"),
            ("bytes", json!(2048.0), "stored 2.0 KiB"),
            ("timesFairShare", json!(3.21), "fair share × 3.2"),
            ("keysTouched", json!(1200.0), "keys touched 1,200"),
            ("key", json!("[\"B\"]"), "key [\"B\"]"),
            ("loadMedian", json!("1F"), "load median 1F"),
            ("newAndUnknown", json!(0.25), "new and unknown 0.2"),
        ] {
            assert_eq!(of(&json!({ "name": name, "value": value })), words);
        }
    }

    /// The rules that make evidence live in another crate; a number that they add must get its description here.
    #[test]
    fn every_number_of_the_diagnosis_has_words() {
        let rules = include_str!("../../../capacity/src/diagnosis/rules.rs");
        let names = rules.split("number(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
        let mut count = 0;
        for name in names.filter_map(|rest| rest.split('"').next()) {
            let is_plain = ["partitions", "partitionsPressed"].contains(&name);
            assert!(is_plain || KNOWN.iter().any(|(known, ..)| *known == name), "{name}");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }
}
