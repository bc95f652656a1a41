//! Paths below `/_shardlake/v1/`: their targets, and the text that a client signs for them.
//!
//! The signature is that of all other requests (`shardlake-signature`). Its resource type is `shardlake`; its
//! resource link is the path as it is sent, without the leading slash and without the query.

use http::Method;
use percent_encoding::percent_decode_str;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_signature::Payload;

use crate::account_keys::KeyTarget;
use crate::analytics::AnalyticsAction;
use crate::backups::BackupTarget;
use crate::copies::CopyTarget;
use crate::parameters::Parameters;
use crate::projections::ProjectionTarget;
use crate::sql::SqlTarget;

/// Begins every path of the operator.
pub const PREFIX: &str = "/_shardlake/v1/";
const RESOURCE_TYPE: &str = "shardlake";

/// An operator's path, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Address<'p> {
    path: &'p str,
    query: Option<&'p str>,
    pub(crate) target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Every container, in short.
    AllContainers,
    Server,
    Caller,
    Pulse,
    Log,
    Diagnostics,
    Projections(ProjectionTarget),
    Copies(CopyTarget),
    Backups(BackupTarget),
    Keys(KeyTarget),
    /// Every analytical store.
    Analytics,
    /// SQL over analytical tables.
    Sql(SqlTarget),
    InContainer {
        database: String,
        container: String,
        what: Action,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Partitions,
    Split { range_id: u32 },
    Merge,
    Move { range_id: u32 },
    AbortRelocation,
    Throughput,
    Heat,
    Key,
    Query,
    RunScript,
    Schema,
    PreviewPolicy,
    Analytics(AnalyticsAction),
}

impl<'p> Address<'p> {
    /// `None` for paths that are not the operator's.
    pub fn parse(path: &'p str, query: Option<&'p str>) -> Result<Option<Address<'p>>> {
        let Some(rest) = path.strip_prefix(PREFIX) else { return Ok(None) };
        let segments: Vec<&str> = rest.split('/').collect();
        let target = match segments.as_slice() {
            ["partitions"] => Target::AllContainers,
            ["server"] => Target::Server,
            ["caller"] => Target::Caller,
            ["pulse"] => Target::Pulse,
            ["log"] => Target::Log,
            ["diagnostics"] => Target::Diagnostics,
            ["analytics"] => Target::Analytics,
            ["analytics", rest @ ..] => {
                Target::Sql(SqlTarget::of(rest, decode)?.ok_or_else(|| no_such_path(path))?)
            }
            ["copies", rest @ ..] => {
                let target = CopyTarget::of(rest, decode)?;
                Target::Copies(target.ok_or_else(|| no_such_path(path))?)
            }
            ["projections", rest @ ..] => {
                let target = ProjectionTarget::of(rest, decode)?;
                Target::Projections(target.ok_or_else(|| no_such_path(path))?)
            }
            ["keys", rest @ ..] => Target::Keys(KeyTarget::of(rest)?.ok_or_else(|| no_such_path(path))?),
            ["backups", rest @ ..] => {
                Target::Backups(BackupTarget::of(rest)?.ok_or_else(|| no_such_path(path))?)
            }
            ["dbs", database, "colls", container, rest @ ..] => Target::InContainer {
                database: decode(database)?,
                container: decode(container)?,
                what: action(rest)?.ok_or_else(|| no_such_path(path))?,
            },
            _ => return Err(no_such_path(path)),
        };
        Ok(Some(Address { path, query, target }))
    }

    /// The payload that the client of this request has signed.
    pub fn signed_form<'a>(&'a self, method: &'a Method, dates: (&'a str, &'a str)) -> Payload<'a> {
        signed_payload(self.path, method, dates)
    }

    /// Whether a resource token may ask as well as a key.
    pub fn takes_tokens(&self) -> bool {
        self.target == Target::Caller
    }

    /// The parameters of the query; each must be among the known ones, and occur at most once.
    pub(crate) fn parameters(&self, known: &[&str]) -> Result<Parameters> {
        Parameters::parse(self.query.unwrap_or_default(), known)
    }

    /// The value of a parameter of the query; every other parameter is refused, so that a misspelt one is noticed.
    pub(crate) fn only_parameter(&self, name: &str) -> Result<Option<&'p str>> {
        let mut found = None;
        for parameter in self.query.unwrap_or_default().split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some((given, value)) if given == name && !name.is_empty() => found = Some(value),
                _ => {
                    return Err(Error::bad_request(format!("the parameter '{parameter}' is not known here")));
                }
            }
        }
        Ok(found)
    }
}

/// The path is signed as it is sent, without the leading slash.
pub(crate) fn signed_payload<'a>(
    path: &'a str,
    method: &'a Method,
    (ms_date, date): (&'a str, &'a str),
) -> Payload<'a> {
    let resource_link = path.trim_start_matches('/');
    Payload { verb: method.as_str(), resource_type: RESOURCE_TYPE, resource_link, ms_date, date }
}

fn action(segments: &[&str]) -> Result<Option<Action>> {
    Ok(Some(match segments {
        ["partitions"] => Action::Partitions,
        ["partitions", "merge"] => Action::Merge,
        ["partitions", id, "split"] => Action::Split { range_id: range_id(id)? },
        ["partitions", id, "move"] => Action::Move { range_id: range_id(id)? },
        ["relocation", "abort"] => Action::AbortRelocation,
        ["throughput"] => Action::Throughput,
        ["heat"] => Action::Heat,
        ["key"] => Action::Key,
        ["query"] => Action::Query,
        ["scripts", "run"] => Action::RunScript,
        ["schema"] => Action::Schema,
        ["indexing", "preview"] => Action::PreviewPolicy,
        ["analytics", rest @ ..] => return Ok(AnalyticsAction::of(rest).map(Action::Analytics)),
        _ => return Ok(None),
    }))
}

/// The number of a partition key range as its text.
pub(crate) fn range_id(text: &str) -> Result<u32> {
    text.parse().map_err(|_| {
        Error::bad_request(format!("'{text}' is no id of a partition key range: ids are whole numbers"))
    })
}

fn decode(segment: &str) -> Result<String> {
    let decoded = percent_decode_str(segment).decode_utf8();
    let decoded =
        decoded.map_err(|_| Error::bad_request("the request path does not decode to UTF-8 text"))?;
    Ok(decoded.into_owned())
}

fn no_such_path(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the operator's interface has no path '{path}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::CopyAction;
    use crate::functions::FunctionAction;

    fn target(path: &str) -> Target {
        let address = Address::parse(path, None).unwrap_or_else(|error| panic!("{path}: {error}"));
        address.unwrap_or_else(|| panic!("{path} is the operator's")).target
    }

    #[test]
    fn every_documented_path_has_a_target() {
        let of = |what| Target::InContainer { database: "d".into(), container: "c/1".into(), what };
        assert_eq!(target("/_shardlake/v1/partitions"), Target::AllContainers);
        for (rest, what) in [
            ("partitions", Action::Partitions),
            ("partitions/merge", Action::Merge),
            ("partitions/7/split", Action::Split { range_id: 7 }),
            ("partitions/7/move", Action::Move { range_id: 7 }),
            ("relocation/abort", Action::AbortRelocation),
            ("throughput", Action::Throughput),
            ("heat", Action::Heat),
            ("key", Action::Key),
            ("query", Action::Query),
            ("scripts/run", Action::RunScript),
            ("schema", Action::Schema),
            ("indexing/preview", Action::PreviewPolicy),
        ] {
            assert_eq!(target(&format!("/_shardlake/v1/dbs/d/colls/c%2F1/{rest}")), of(what), "{rest}");
        }
    }

    #[test]
    fn copies_are_named_by_their_kind_and_container() {
        let of = |rest: &str| match target(&format!("/_shardlake/v1/copies{rest}")) {
            Target::Copies(target) => target,
            other => panic!("{other:?}"),
        };
        let index = |database: &str, container: &str, action| CopyTarget::Index {
            database: database.into(),
            container: container.into(),
            action,
        };
        assert_eq!(of(""), CopyTarget::All);
        assert_eq!(of("/index/a%20b/c"), index("a b", "c", CopyAction::Show));
        assert_eq!(of("/index/a/c/pause"), index("a", "c", CopyAction::Pause));
        assert_eq!(of("/index/a/c/resume"), index("a", "c", CopyAction::Resume));
        assert_eq!(of("/index/a/c/rebuild"), index("a", "c", CopyAction::Rebuild));
        assert_eq!(of("/index/a/c/verify"), index("a", "c", CopyAction::Verify));
        let function = |action| CopyTarget::Function { id: "n-1".into(), action };
        assert_eq!(of("/functions/n-1"), function(FunctionAction::One));
        for action in FunctionAction::NAMED {
            assert_eq!(of(&format!("/functions/n-1/{}", action.name())), function(action));
        }
        for path in ["/functions/", "/functions/a/stop", "/functions/a/pause/b"] {
            let path = format!("/_shardlake/v1/copies{path}");
            assert_eq!(Address::parse(&path, None).expect_err(&path).kind(), ErrorKind::NotFound);
        }
        for path in ["/", "/index", "/index/a", "/index/a/", "/rules/a", "/index/a/c/stop"] {
            let path = format!("/_shardlake/v1/copies{path}");
            assert!(Address::parse(&path, None).is_err(), "{path}");
        }
    }

    #[test]
    fn projections_are_named_by_their_ids() {
        let of = |rest: &str| match target(&format!("/_shardlake/v1/projections{rest}")) {
            Target::Projections(target) => target,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(""), ProjectionTarget::All);
        assert_eq!(of("/a%20b"), ProjectionTarget::One("a b".into()));
        assert_eq!(of("/a/pause"), ProjectionTarget::Pause("a".into()));
        assert_eq!(of("/a/resume"), ProjectionTarget::Resume("a".into()));
        for path in ["/_shardlake/v1/projections/", "/_shardlake/v1/projections/a/stop"] {
            assert_eq!(Address::parse(path, None).expect_err(path).kind(), ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn backups_are_named_by_places_and_never_by_paths() {
        let of = |rest: &str| Address::parse(&format!("/_shardlake/v1/backups{rest}"), None).map(|_| ());
        for rest in ["", "/0a", "/0a/shards/1/files/3/2097152", "/..", "/%2e%2e"] {
            assert!(of(rest).is_ok(), "{rest}");
        }
        for (rest, kind) in [
            ("/", ErrorKind::NotFound),
            ("/0a/shards/1/files/3", ErrorKind::NotFound),
            ("/0a/files/../../etc/passwd/0", ErrorKind::NotFound),
            ("/0a/shards/1/files/-1/0", ErrorKind::BadRequest),
            ("/0a/shards/../files/passwd/0", ErrorKind::BadRequest),
            ("/0a/shards/1/files/3/99999999999999999999", ErrorKind::BadRequest),
        ] {
            assert_eq!(of(rest).expect_err(rest).kind(), kind, "{rest}");
        }
    }

    #[test]
    fn other_paths_are_not_ours_or_refused() {
        for path in ["/", "/dbs/_shardlake", "/_shardlake/ca.pem", "/_shardlake/v2/partitions"] {
            assert_eq!(Address::parse(path, None).expect("not ours"), None, "{path}");
        }
        for (path, kind) in [
            ("/_shardlake/v1/", ErrorKind::NotFound),
            ("/_shardlake/v1/dbs/d", ErrorKind::NotFound),
            ("/_shardlake/v1/dbs/d/colls/c/partitions/", ErrorKind::NotFound),
            ("/_shardlake/v1/dbs/d/colls/c/partitions/7", ErrorKind::NotFound),
            ("/_shardlake/v1/dbs/d/colls/c/partitions/x/split", ErrorKind::BadRequest),
            ("/_shardlake/v1/dbs/%ff/colls/c/partitions", ErrorKind::BadRequest),
        ] {
            assert_eq!(Address::parse(path, None).expect_err(path).kind(), kind, "{path}");
        }
    }

    #[test]
    fn parameters_are_known_or_refused() {
        let parameter = |query| {
            let address = Address::parse("/_shardlake/v1/partitions", Some(query)).expect("valid");
            address.expect("ours").only_parameter("window")
        };
        assert_eq!(parameter("").expect("none"), None);
        assert_eq!(parameter("window=6h").expect("one"), Some("6h"));
        for query in ["windows=6h", "window", "window=6h&x=1"] {
            assert!(parameter(query).is_err(), "{query}");
        }
    }
}
