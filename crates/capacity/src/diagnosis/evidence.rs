//! Evidence of a finding: its numbers, with names for programs.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    pub name: &'static str,
    pub value: EvidenceValue,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EvidenceValue {
    Number(f64),
    Text(String),
}

pub(super) fn number(name: &'static str, value: f64) -> Evidence {
    Evidence { name, value: EvidenceValue::Number(value) }
}

pub(super) fn text(name: &'static str, value: impl Into<String>) -> Evidence {
    Evidence { name, value: EvidenceValue::Text(value.into()) }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(super) fn bytes(size_bytes: u64) -> String {
    let size = size_bytes as f64;
    match size_bytes {
        0..=9_999 => format!("{size_bytes} B"),
        10_000..=9_999_999 => format!("{:.0} kB", size / 1e3),
        10_000_000..=9_999_999_999 => format!("{:.0} MB", size / 1e6),
        _ => format!("{:.1} GB", size / 1e9),
    }
}
