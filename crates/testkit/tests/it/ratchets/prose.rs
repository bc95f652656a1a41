//! Plain English: words of the dialect per 10,000 words of comments and documents.
//!
//! The house style has a noun for each of them: the thing in place of "what", the actor in place of
//! "whoever", report, return or log in place of "tell" and "say". Names in backticks and blocks of
//! code are not prose.

use std::sync::LazyLock;

use regex::Regex;

use super::Ratchet;
use super::sources::Sources;
use crate::tidy::{files, read};

/// For crates and documents without a line.
const ORDINARY: f64 = 15.0;
/// A commit may remove plain sentences.
const LEEWAY: f64 = 0.02;

static DIALECT: LazyLock<Regex> = LazyLock::new(|| {
    let nouns = "what|whoever|whomever|nobody|somebody|anybody|everybody|one that";
    let verbs = "tell|tells|told|telling|say|says|said|saying|hear|hears|heard";
    Regex::new(&format!(r"(?i-u)\b(?:{nouns}|{verbs})\b")).unwrap()
});
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)```.*?```|`[^`\n]*`").unwrap());

pub fn measure(sources: &Sources) -> Vec<Ratchet> {
    let about = "Words of the dialect per 10,000 words of comments, by crate.";
    let mut comments = Ratchet::most("dialect_of_comments", about, ORDINARY).with_leeway(LEEWAY);
    for (name, sources) in &sources.0 {
        let text = sources.iter().map(|source| source.comments.as_str()).collect::<Vec<_>>().join("\n");
        let (uses, words) = count(&text);
        comments.add(name, density(uses, words), format!("{uses} uses in {words} words"));
    }
    let about = "Words of the dialect per 10,000 words, by document.";
    let mut documents = Ratchet::most("dialect_of_documents", about, ORDINARY).with_leeway(LEEWAY);
    for path in files(".md") {
        let (uses, words) = count(&read(&path));
        documents.add(&path, density(uses, words), format!("{uses} uses in {words} words"));
    }
    vec![comments, documents]
}

/// Uses of the dialect, and words.
fn count(text: &str) -> (usize, usize) {
    let text = CODE.replace_all(text, "`");
    let words =
        text.split_ascii_whitespace().filter(|word| word.bytes().any(|byte| byte.is_ascii_alphabetic()));
    (DIALECT.find_iter(&text).count(), words.count())
}

/// The least whole limit that allows these uses: `uses <= ceil(limit * words / 10,000)`. So a short
/// text that loses some of its plain words keeps its limit.
fn density(uses: usize, words: usize) -> f64 {
    let Some(others) = uses.checked_sub(1) else { return 0.0 };
    ((others * 10_000 / words) + 1) as f64
}

#[test]
fn the_dialect_is_counted() {
    let text = "What a step was told. `what` Nobody says\n```\nwhat\n```\nwhatever, 12 toll";
    assert_eq!(count(text), (4, 9));
    assert_eq!(density(0, 100), 0.0);
    assert_eq!(density(1, 100), 1.0);
    assert_eq!(density(3, 500), 41.0);
    assert_eq!(density(3, 460), 44.0);
}
