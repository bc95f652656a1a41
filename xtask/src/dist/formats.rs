//! The table of data formats in `docs/releases.md`, compared with the sources.

use crate::project;

/// Mark and source in a row such as `| an item | `FORMAT_VERSION: u8 = 3` | `crates/document/src/record.rs` | 2, 3 |`.
fn marked(row: &str) -> Option<(&str, &str)> {
    let mut cells = row.strip_prefix("| ")?.split(" | ").skip(1);
    let mut code = || cells.next()?.strip_prefix('`')?.strip_suffix('`');
    let (mark, source) = (code()?, code()?);
    source.ends_with(".rs").then_some((mark, source))
}

#[test]
fn the_marks_of_data_formats_are_those_of_the_sources() {
    let read = |path: &str| std::fs::read_to_string(project::root().join(path)).expect(path);
    let page = read("docs/releases.md");
    let rows: Vec<_> = page.lines().filter_map(marked).collect();
    assert!(rows.len() >= 13, "the table has lost rows: {rows:?}");
    for (mark, source) in rows {
        assert!(
            read(source).contains(mark),
            "{source} has no {mark} any more: a changed format needs a row for what opens it"
        );
    }
}

#[test]
fn rows_of_other_tables_have_no_marks() {
    assert_eq!(marked("| a | `b` | `c/d.rs` | 1 |"), Some(("b", "c/d.rs")));
    assert_eq!(marked("| ports | 8081 | `x` |"), None);
    assert_eq!(marked("text"), None);
}
