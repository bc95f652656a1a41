//! Keywords and names of functions, for editors that complete them.

use crate::bind::AGGREGATES;
use crate::functions::{Function, SPECIAL, public};
use crate::syntax::lexer::RESERVED;

/// Names of all functions that a query may call, aggregates included, in capitals.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    let special = SPECIAL.into_iter().map(|(name, ..)| name);
    public().map(Function::name).chain(special).chain(AGGREGATES)
}

/// Words of the grammar in capitals.
pub fn keywords() -> impl Iterator<Item = &'static str> {
    RESERVED.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_page_is_listed_once() {
        let page = include_str!("../../../docs/sql-functions.md");
        let mut names: Vec<&str> = function_names().collect();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        assert_eq!(names.len(), rows.clone().count());
        for row in rows {
            assert!(names.contains(&row), "{row}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), function_names().count(), "no name comes twice");
        assert!(keywords().any(|word| word == "SELECT"));
    }
}
