//! Words that may follow at the cursor: keywords, functions, commands, names of containers, properties of results.

use std::collections::BTreeSet;

use shardlake_account::sql::{function_names, keywords};

use super::statements::COMMANDS;
use crate::data::Place;

/// Names that the server and the results have brought.
#[derive(Debug, Default)]
pub struct Known {
    pub places: Vec<Place>,
    pub properties: BTreeSet<String>,
    /// The database in use, whose containers need no database in front.
    pub database: String,
}

/// Where the word at the cursor begins, and the words that it may become.
pub fn complete(line: &str, cursor: usize, known: &Known) -> (usize, Vec<String>) {
    let before = &line[..cursor];
    let is_name = before
        .split_whitespace()
        .next()
        .is_some_and(|first| matches!(first.trim_start_matches(['\\', '.']), "use" | "describe" | "d"));
    if is_name && before.contains(char::is_whitespace) {
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        return (start, places(&before[start..], known));
    }
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_');
    let start = before
        .rfind(|character| !is_part(character))
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    let word = &before[start..];
    // `c.na`, but not `.help` at the beginning.
    if before[..start].ends_with('.') && start > 1 {
        let fits = known.properties.iter().filter(|name| name.starts_with(word));
        return (start, fits.cloned().collect());
    }
    if word.is_empty() {
        return (start, Vec::new());
    }
    let is_lower = word.chars().all(|character| !character.is_uppercase());
    let cased = |name: &str| if is_lower { name.to_lowercase() } else { name.to_owned() };
    let upper = word.to_uppercase();
    let first_words: &[&str] = if before[..start].trim().is_empty() { &COMMANDS } else { &[] };
    let mut fits: Vec<String> = keywords()
        .chain(function_names())
        .filter(|name| name.starts_with(&upper))
        .map(cased)
        .chain(first_words.iter().filter(|name| name.starts_with(word)).map(|name| (*name).to_owned()))
        .collect();
    fits.sort();
    fits.dedup();
    (start, fits)
}

fn places(word: &str, known: &Known) -> Vec<String> {
    let own = known.places.iter().filter(|place| place.database == known.database);
    let own = own.map(|place| place.container.clone());
    let all = known.places.iter().map(Place::to_string);
    own.chain(all).filter(|name| name.starts_with(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> (usize, Vec<String>) {
        let place = |database: &str, container: &str| Place {
            database: database.into(),
            container: container.into(),
        };
        let known = Known {
            places: vec![place("shop", "orders"), place("other", "things")],
            properties: ["total".to_owned(), "tags".to_owned()].into(),
            database: "shop".into(),
        };
        complete(line, line.len(), &known)
    }

    #[test]
    fn words_are_completed_by_their_place() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(completed("SELECT c.t"), (9, words(&["tags", "total"])));
        assert_eq!(completed("sel"), (0, words(&["select"])));
        assert_eq!(completed("SELECT ARRAY_CONTAINS_A").0, 7);
        assert!(completed("SELECT ARRAY_CON").1.contains(&"ARRAY_CONTAINS".to_owned()));
        assert!(completed("select array_con").1.contains(&"array_contains".to_owned()));
        assert_eq!(completed("use o"), (4, words(&["orders", "other/things"])));
        assert_eq!(completed("\\describe shop/"), (10, words(&["shop/orders"])));
        assert_eq!(completed("des"), (0, words(&["desc", "describe"])));
        assert_eq!(completed("SELECT "), (7, words(&[])));
        assert_eq!(completed("SELECT \u{e4}."), (10, words(&["tags", "total"])));
    }
}
