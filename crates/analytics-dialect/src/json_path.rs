//! T-SQL's paths into JSON, such as `$.address.city` and `$.lines[0]."unit price"`.

use sqlparser::tokenizer::Location;

use crate::error::{Checked, refuse};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Member(String),
    /// Place in a list, from 0.
    Index(u64),
}

pub(crate) fn parse(path: &str, at: Location) -> Checked<Vec<Step>> {
    let malformed = || {
        refuse(
            at,
            format!("'{path}' is no path"),
            "write '$.member.member', and odd names as $.\"unit price\"",
        )
    };
    let rest = path.trim();
    if rest.len() >= 6 && rest.is_char_boundary(6) && rest[..6].eq_ignore_ascii_case("strict") {
        return refuse(
            at,
            "paths in strict mode are not translated",
            "leave 'strict' out: a missing member is NULL",
        );
    }
    let rest = rest.strip_prefix("lax").map_or(rest, str::trim_start);
    let Some(mut rest) = rest.strip_prefix('$') else {
        return malformed();
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix(".\"") {
            let Some(end) = quoted.find('"').filter(|end| *end > 0) else {
                return malformed();
            };
            steps.push(Step::Member(quoted[..end].to_owned()));
            rest = &quoted[end + 1..];
        } else if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if name[..end].is_empty() || name[..end].contains(['"', ' ', '*', '\'']) {
                return malformed();
            }
            steps.push(Step::Member(name[..end].to_owned()));
            rest = &name[end..];
        } else if let Some(index) = rest.strip_prefix('[') {
            let end = index.find(']').unwrap_or(0);
            let Ok(place) = index[..end].trim().parse::<u32>() else {
                return malformed();
            };
            steps.push(Step::Index(u64::from(place)));
            rest = &index[end + 1..];
        } else {
            return malformed();
        }
    }
    Ok(steps)
}
