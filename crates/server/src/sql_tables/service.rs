//! Requests to queries, failures to errors.

use serde_json::{Value, json};
use shardlake_admin::{
    SqlAnswer, SqlAsOf, SqlAtLeast, SqlFormat, SqlFuture, SqlRefusal, SqlRequest, SqlService,
};
use shardlake_analytics::Analytics;
use shardlake_analytics_sql::{AsOf, Failure, FailureKind, Format, Pool, Query, QueryState, Unlisted, Waits};
use shardlake_model::{Error, ErrorKind};

use super::awaited::{Awaited, wait_for};
use super::stream::AnswerStream;
use super::tables;

const RETRY_AFTER_MS: u64 = 1_000;

#[derive(Debug)]
pub struct Service {
    pool: Pool,
    analytics: Analytics,
}

impl Service {
    pub(super) fn new(pool: Pool, analytics: Analytics) -> Service {
        Service { pool, analytics }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn waits(&self, awaited: Awaited) -> Waits {
        let analytics = self.analytics.clone();
        Box::new(move |names| Box::pin(wait_for(analytics, names, awaited)))
    }

    async fn answer(&self, request: SqlRequest) -> Result<SqlAnswer, Failure> {
        let waits = match request.at_least {
            SqlAtLeast::Any => None,
            SqlAtLeast::Now => Some(self.waits(Awaited::Everything)),
            SqlAtLeast::Sessions(sessions) => {
                Some(self.waits(Awaited::of_sessions(&self.analytics, sessions)?))
            }
        };
        let analytics = self.analytics.clone();
        let unlisted: Unlisted =
            Box::new(move |database, container| tables::unlisted(&analytics, database, container));
        let query = Query {
            id: request.id,
            statement: request.statement,
            parameters: request.parameters,
            database: request.database,
            tables: tables::listed(&self.analytics).await,
            as_of: match request.as_of {
                SqlAsOf::Newest => AsOf::Newest,
                SqlAsOf::Versions(versions) => AsOf::Versions(versions),
                SqlAsOf::Time(time) => AsOf::Time(time),
            },
            format: match request.format {
                SqlFormat::Json => Format::Json,
                SqlFormat::JsonLines => Format::JsonLines,
                SqlFormat::Csv => Format::Csv,
                SqlFormat::ArrowStream => Format::ArrowStream,
            },
            bigints_as_text: request.bigints_as_text,
            now: request.now / 1_000,
            waits,
            unlisted: Some(unlisted),
            time: request.time,
        };
        let answer = self.pool.run(query).await?;
        let versions = serde_json::to_string(&answer.head.versions).expect("names and numbers are JSON");
        let media_type = answer.head.media_type.clone();
        Ok(SqlAnswer { media_type, versions, source: Box::new(AnswerStream(answer)) })
    }
}

impl SqlService for Service {
    fn run(&self, request: SqlRequest) -> SqlFuture<'_> {
        Box::pin(async move { self.answer(request).await.map_err(|failure| refusal(&failure)) })
    }

    fn queries(&self) -> Value {
        let queries = self.pool.running().into_iter().map(|query| {
            json!({
                "id": query.id,
                "template": query.template,
                "database": query.database,
                "state": match query.state {
                    QueryState::Waits => "waiting",
                    QueryState::AwaitsTables => "awaitingTables",
                    QueryState::Runs => "running",
                },
                "ageMs": query.age.as_millis() as u64,
            })
        });
        queries.collect()
    }

    fn cancel(&self, id: &str) -> bool {
        self.pool.cancel(id)
    }
}

fn refusal(failure: &Failure) -> SqlRefusal {
    let (kind, code) = match failure.kind {
        FailureKind::Statement | FailureKind::TooLarge => (ErrorKind::BadRequest, None),
        FailureKind::NotEnabled => (ErrorKind::NotFound, Some("AnalyticsNotEnabled")),
        FailureKind::NotReady => (ErrorKind::Unavailable, Some("AnalyticsNotReady")),
        // No time ends it: an operator has to act.
        FailureKind::NotFollowing => (ErrorKind::Unavailable, Some("AnalyticsNotReady")),
        FailureKind::SessionNotAvailable => (ErrorKind::SessionNotAvailable, None),
        FailureKind::OutOfReach => (ErrorKind::Unsupported, Some("NotImplemented")),
        FailureKind::VersionGone => (ErrorKind::BadRequest, Some("AnalyticsVersionGone")),
        FailureKind::NeedsTooMuch => (ErrorKind::BadRequest, Some("QueryNeedsTooMuch")),
        FailureKind::Cancelled => (ErrorKind::BadRequest, Some("QueryCancelled")),
        FailureKind::Damaged => (ErrorKind::Corrupt, Some("AnalyticsDamaged")),
        FailureKind::TimedOut => (ErrorKind::Timeout, None),
        FailureKind::Busy => (ErrorKind::TooManyRequests, None),
        FailureKind::Lost => (ErrorKind::Unavailable, None),
        FailureKind::Internal => (ErrorKind::Internal, None),
    };
    let mut message = match (failure.line, failure.column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: {}", failure.message),
        _ => failure.message.clone(),
    };
    if let Some(hint) = &failure.hint {
        message = format!("{message}; {hint}");
    }
    let mut members = serde_json::Map::new();
    let mut member = |name: &str, value: Option<Value>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    member("code", code.map(Value::from));
    member("line", failure.line.map(Value::from));
    member("column", failure.column.map(Value::from));
    member("hint", failure.hint.clone().map(Value::from));
    let mut error = Error::new(kind, message);
    if matches!(failure.kind, FailureKind::NotReady | FailureKind::Busy | FailureKind::Lost) {
        error = error.with_retry_after_ms(RETRY_AFTER_MS);
    }
    SqlRefusal { error, members: Value::Object(members) }
}
