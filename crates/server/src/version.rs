//! Version, commit, profile and features of this program, as `shardlake --version` prints them.

use std::fmt::Write as _;
use std::sync::LazyLock;

/// Abbreviated commit that the program was built from; `unknown` without a repository and in debug builds.
pub const COMMIT: &str = env!("SHARDLAKE_COMMIT");

/// Cargo features that this program may be built with, and whether it was.
const FEATURES: [(&str, bool); 2] =
    [("object-storage", cfg!(feature = "object-storage")), ("otlp", cfg!(feature = "otlp"))];

/// Version in one line, without the program's name.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// The version in the first line, then one fact a line.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(written_out);
    &LONG
}

fn written_out() -> String {
    let mut text = SHORT.to_owned();
    let facts = [
        ("commit", format!("{COMMIT} ({})", env!("SHARDLAKE_COMMIT_DATE"))),
        ("profile", env!("SHARDLAKE_PROFILE").to_owned()),
        ("features", features()),
        ("target", env!("SHARDLAKE_TARGET").to_owned()),
    ];
    for (name, fact) in facts {
        write!(text, "\n{name}: {fact}").expect("writing to a string cannot fail");
    }
    text
}

fn features() -> String {
    let built: Vec<&str> = FEATURES.iter().filter(|(_, built)| *built).map(|(name, _)| *name).collect();
    if built.is_empty() { "none".to_owned() } else { built.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_first_and_each_fact_has_a_line() {
        let text = long();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], env!("CARGO_PKG_VERSION"));
        let names: Vec<&str> =
            lines[1..].iter().map(|line| line.split_once(": ").expect("a fact").0).collect();
        assert_eq!(names, ["commit", "profile", "features", "target"]);
        assert!(FEATURES.iter().all(|(name, built)| features().contains(name) == *built), "{text}");
        assert!(!env!("SHARDLAKE_PROFILE").is_empty() && !env!("SHARDLAKE_TARGET").is_empty());
    }
}
