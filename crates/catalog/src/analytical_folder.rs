//! Folders of analytical tables below their root: `database/container`, readable by people and by every file system.

use std::fmt::Write;

use shardlake_model::ContainerRid;

/// The folder of a container's table. Bytes that file systems or URLs treat in ways of their own are written `~XX`: readers
/// take `%` for an escape of their own and do not find such a folder.
pub fn folder_of(database: &str, container: &str) -> String {
    format!("{}/{}", escaped(database), escaped(container))
}

/// The folder of a container whose name differs from an earlier one by case only: file systems that ignore case would mix the
/// two. An escape is `~` with two digits `0–9 A–F`, so the `r` cannot be one.
pub fn folder_apart(folder: &str, rid: ContainerRid) -> String {
    format!("{folder}~r{:x}-{:x}", rid.database.0, rid.number)
}

fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            // A name of dots alone would be another folder, and one with a leading dot or underscore a hidden one.
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' => text.push(char::from(byte)),
            b'.' | b'_' if at > 0 => text.push(char::from(byte)),
            _ => write!(text, "~{byte:02X}").expect("a text takes everything"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_readable_and_distinct() {
        for (database, container, folder) in [
            ("shop", "customer", "shop/customer"),
            ("My Shop", "a.b_c-d", "My~20Shop/a.b_c-d"),
            ("..", ".", "~2E./~2E"),
            ("_delta_log", "ü", "~5Fdelta_log/~C3~BC"),
            ("a~20b", "a b", "a~7E20b/a~20b"),
        ] {
            assert_eq!(folder_of(database, container), folder);
        }
    }

    #[test]
    fn names_that_differ_by_case_have_folders_of_their_own() {
        let rid = ContainerRid { database: shardlake_model::DatabaseRid(0xAB), number: 7 };
        let apart = folder_apart(&folder_of("shop", "Customer"), rid);
        assert_eq!(apart, "shop/Customer~rab-7");
        // No container has this folder by its name.
        assert_eq!(folder_of("shop", "Customer~rab-7"), "shop/Customer~7Erab-7");
    }
}
