//! Default place of the data of `shardlake demo webstore`: the user's data home, never the current directory.

use std::ffi::OsString;
use std::path::PathBuf;

/// `$XDG_DATA_HOME/shardlake/demo-webstore`, or the same below `~/.local/share`.
pub fn place(environment: &[(OsString, OsString)]) -> Result<PathBuf, String> {
    let of = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| name.to_str() == Some(wanted));
        // A path that is not absolute would be one of the current directory.
        found.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
    };
    let home = of("XDG_DATA_HOME").or_else(|| Some(of("HOME")?.join(".local/share")));
    let home = home.ok_or("there is no HOME to keep the demo in: say where with --data-dir, or start it with --durability memory")?;
    Ok(home.join("shardlake").join("demo-webstore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_homes_count() {
        let at = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(OsString, OsString)> =
                pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
            place(&pairs)
        };
        let expected = |home: &str| Ok(PathBuf::from(home).join("shardlake/demo-webstore"));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]), expected("/x"));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_DATA_HOME", "")]), expected("/h/.local/share"));
        assert!(at(&[("HOME", "here")]).expect_err("relative").contains("--data-dir"));
    }
}
