//! Waiting until the tables of a query have the writes that it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use shardlake_analytics::{Analytics, AtLeast, Freshness, TableState, Wanted};
use shardlake_analytics_sql::{Failure, FailureKind, ListedTable};
use shardlake_model::{Error, ErrorKind, SessionToken};

use super::tables::listed;

/// Between two looks at the tables that a query waits for.
const LOOKS_APART: Duration = Duration::from_millis(50);

/// Database and container.
type TableName = (String, String);

/// The writes that the tables of a query must have.
pub(super) enum Awaited {
    Everything,
    /// By database and container. Other tables are read as they are.
    Positions(BTreeMap<TableName, Wanted>),
}

impl Awaited {
    pub fn of_sessions(
        analytics: &Analytics,
        sessions: BTreeMap<(String, String), SessionToken>,
    ) -> Result<Awaited, Failure> {
        let positions = sessions.into_iter().map(|(name, session)| {
            let wanted = analytics.wanted(&name.0, &name.1, &AtLeast::Session(session));
            match wanted.map_err(|error| failed(&error))? {
                Some(wanted) => Ok((name, wanted)),
                None => Err(Failure::new(
                    FailureKind::Statement,
                    format!("\"atLeast\" names '{}/{}': there is no such container", name.0, name.1),
                )),
            }
        });
        positions.collect::<Result<_, Failure>>().map(Awaited::Positions)
    }

    /// The positions that the named tables have to reach.
    fn of_tables(
        self,
        analytics: &Analytics,
        names: Vec<(String, String)>,
    ) -> Result<Vec<(TableName, Wanted)>, Failure> {
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let wanted = match &self {
                Awaited::Everything => analytics.wanted(&name.0, &name.1, &AtLeast::Now),
                Awaited::Positions(positions) => Ok(positions.get(&name).cloned()),
            };
            // A container that is deleted meanwhile is not found by the statement either.
            all.extend(wanted.map_err(|error| failed(&error))?.map(|wanted| (name, wanted)));
        }
        Ok(all)
    }
}

/// Waits until the tables have the awaited writes, and lists them. The query's time ends the wait; a table that does not follow its
/// container ends it at once.
pub(super) async fn wait_for(
    analytics: Analytics,
    names: Vec<(String, String)>,
    awaited: Awaited,
) -> Result<Vec<ListedTable>, Failure> {
    let mut behind = awaited.of_tables(&analytics, names)?;
    loop {
        let mut left = Vec::with_capacity(behind.len());
        for (name, wanted) in behind {
            match analytics.freshness(&wanted).await.map_err(|error| failed(&error))? {
                Freshness::Reached => {}
                Freshness::Behind => left.push((name, wanted)),
                Freshness::NotFollowing(state) => return Err(not_following(&name, &state)),
            }
        }
        if left.is_empty() {
            return Ok(listed(&analytics).await);
        }
        behind = left;
        tokio::time::sleep(LOOKS_APART).await;
    }
}

fn not_following((database, container): &(String, String), state: &TableState) -> Failure {
    let name = format!("{database}/{container}");
    let remedy = match state {
        TableState::Paused => format!("resume it (shardlake analytics resume {name})"),
        TableState::Failed(_) => format!("rebuild it (shardlake analytics rebuild {name})"),
        _ => "start the server without --analytics off".to_owned(),
    };
    let reason = state.reason().map_or_else(String::new, |reason| format!(" ({reason})"));
    Failure::new(
        FailureKind::NotFollowing,
        format!(
            "AnalyticsNotReady: the table of '{name}' is {}{reason}, and lacks writes that \"atLeast\" asks for: {remedy}, or leave \"atLeast\" out",
            state.name()
        ),
    )
}

fn failed(error: &Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::SessionNotAvailable => FailureKind::SessionNotAvailable,
        ErrorKind::Unavailable => FailureKind::Lost,
        _ => FailureKind::Internal,
    };
    Failure::new(kind, error.message())
}
