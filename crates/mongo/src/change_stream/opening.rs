//! Start and resumption of change streams.

use std::collections::VecDeque;

use shardlake_mql::{Env, Pipeline, Scope as Variables, Value};

use super::ended::Ends;
use super::followed::{Followed, Start, history_lost};
use super::token::{INVALID_RESUME_TOKEN, Token, TokenContainer, TokenKind};
use super::{CHANGE_STREAM_FATAL, ChangeStream, StreamOptions, StreamStart, Watched};
use crate::collections::{Collections, Found};
use crate::expressions::has_expression;
use crate::failure::{Failure, Result};

/// Stages that see one event at a time.
const STAGES: [&str; 8] =
    ["$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact"];
const SPLIT: &str = "$changeStreamSplitLargeEvent";

impl Collections {
    /// Opens a stream; `stages` come behind `$changeStream`.
    pub async fn watch(
        &self,
        watched: Watched,
        (start, options): (StreamStart, StreamOptions),
        stages: &[Value],
        (variables, env): (&Variables, Env),
    ) -> Result<ChangeStream> {
        let pipeline = pipeline_of(stages, variables)?;
        if let Watched::Collection(namespace) = &watched
            && let Found::View(_) = self.find_name(namespace)?
        {
            let words = format!("$changeStream cannot be opened on the view {namespace}");
            return Err(Failure::new(166, words));
        }
        // Before the first read of definitions: later changes are seen with the first batch.
        let mut catalog = self.queries.router().catalog_versions();
        let version = *catalog.borrow_and_update();
        let mut stream = ChangeStream {
            collections: self.clone(),
            time_ms: self.queries.router().clock().now().milliseconds(),
            watched,
            options,
            pipeline,
            evaluates: stages.iter().any(evaluates),
            env,
            followed: Vec::new(),
            pending: VecDeque::new(),
            at_work: None,
            ready: VecDeque::new(),
            catalog,
            ends: Ends::up_to(version),
            kind: TokenKind::Events,
            broken: None,
        };
        match start {
            StreamStart::Now => stream.follow_all(&Start::now()).await?,
            StreamStart::At(since_ms) => stream.begin_at(since_ms).await?,
            StreamStart::ResumeAfter(token) => {
                if token.kind == TokenKind::Nothing {
                    let words = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification.";
                    return Err(Failure::new(INVALID_RESUME_TOKEN, words));
                }
                stream.go_on(token).await?;
            }
            StreamStart::StartAfter(token) if token.kind == TokenKind::Nothing => {
                stream.check_scope(&token)?;
                stream.time_ms = token.time_ms;
                stream.ends = stream.ends_of(&token);
                stream.follow_what_came().await?;
            }
            StreamStart::StartAfter(token) => stream.go_on(token).await?,
        }
        Ok(stream)
    }
}

impl ChangeStream {
    async fn begin_at(&mut self, since_ms: u64) -> Result<()> {
        let asked_ms = since_ms;
        let mut since_ms = since_ms;
        if let Watched::Collection(namespace) = &self.watched
            && let Some(found) = self.collections.collection(namespace)?
            && let Some(rename) = found.meta.renames.last()
        {
            // Before the rename, the name belonged to another collection.
            since_ms = since_ms.max(rename.at_ms);
        }
        self.time_ms = since_ms;
        self.ends = Ends { since_ms: asked_ms, ..Ends::up_to_time(&self.definitions(), asked_ms) };
        self.tell_ended()?;
        if self.is_over() {
            return Ok(());
        }
        self.follow_all(&Start::at(since_ms)).await
    }

    /// Follows all watched containers, under the names that they had at the start.
    async fn follow_all(&mut self, start: &Start) -> Result<()> {
        for entry in self.collections.watched_now(&self.watched)? {
            let followed = self.collections.followed(entry, start.clone()).await?;
            self.followed.push(followed);
        }
        Ok(())
    }

    /// Follows the next holder of the watched name after the previous one ended. A dropped collection or database does
    /// not come back, so its successor is reported from its first change. A collection that was renamed to the name is
    /// reported from the rename on.
    async fn follow_what_came(&mut self) -> Result<()> {
        self.tell_ended()?;
        if self.is_over() {
            return Ok(());
        }
        for entry in self.collections.watched_now(&self.watched)? {
            let start = match self.watched {
                Watched::Collection(_) => match self.collections.named_since(&entry)? {
                    Some(at_ms) => Start::at(at_ms),
                    None => Start::beginning(),
                },
                Watched::Database(_) | Watched::Everything => Start::beginning(),
            };
            self.followed.push(self.collections.followed(entry, start).await?);
        }
        Ok(())
    }

    /// Another collection had the watched name and ended: its end is the only event of the stream.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.watched, Watched::Collection(_)) && !self.pending.is_empty()
    }

    fn ends_of(&self, token: &Token) -> Ends {
        match token.ends_told {
            Some(version) => Ends::up_to(version),
            None => Ends::up_to_time(&self.definitions(), token.time_ms),
        }
    }

    fn check_scope(&self, token: &Token) -> Result<()> {
        if token.scope == self.watched.scope() {
            return Ok(());
        }
        let words = "the resume token is of a change stream on something else: a collection's, a database's and that of a deployment do not take one another's place";
        Err(Failure::new(CHANGE_STREAM_FATAL, words))
    }

    /// Continues behind an earlier event or batch.
    async fn go_on(&mut self, token: Token) -> Result<()> {
        self.check_scope(&token)?;
        self.time_ms = token.time_ms;
        self.ends = self.ends_of(&token);
        if token.kind == TokenKind::Invalidate {
            self.kind = TokenKind::Invalidate;
            self.invalidate(token.time_ms);
            return Ok(());
        }
        for TokenContainer { rid, renamed_ms, position } in &token.containers {
            let Ok(entry) = self.collections.queries.router().entry_of_rid(*rid) else {
                return Err(history_lost("a collection was dropped that the stream had not read to its end"));
            };
            let start = Start::after(position.clone(), *renamed_ms);
            let followed = self.collections.followed(entry, start).await?;
            if !self.is_about(&followed) {
                // Without its name, which the client may not be allowed to know.
                let words = "the resume token is of another change stream: leave it out, or watch that";
                return Err(Failure::new(CHANGE_STREAM_FATAL, words));
            }
            self.followed.push(followed);
        }
        if matches!(self.watched, Watched::Collection(_)) && !self.followed.is_empty() {
            return self.tell_ended();
        }
        self.follow_new().await
    }

    /// Whether a container was watched under the name that it had.
    fn is_about(&self, followed: &Followed) -> bool {
        match &self.watched {
            // A pending rename may also give it the name.
            Watched::Collection(namespace) => {
                let names = followed.renames.iter().map(|rename| &*rename.to);
                namespace.database == followed.namespace.database
                    && names
                        .chain([&*followed.namespace.collection])
                        .any(|name| *name == *namespace.collection)
            }
            Watched::Database(database) => **database == *followed.namespace.database,
            Watched::Everything => true,
        }
    }
}

/// Whether a stage is more than a filter without expressions.
fn evaluates(stage: &Value) -> bool {
    let stage = stage.as_document();
    stage.is_none_or(|stage| !stage.has("$match") || stage.iter().any(|(_, filter)| has_expression(filter)))
}

fn pipeline_of(stages: &[Value], variables: &Variables) -> Result<Pipeline> {
    for stage in stages {
        let stage = stage.as_document();
        let name = stage.and_then(|stage| stage.first()).map_or("", |(name, _)| &**name);
        if name == SPLIT {
            return Err(Failure::new(
                303,
                format!("{SPLIT} is not supported: an event of more than 16 MB is refused"),
            ));
        }
        if name.starts_with('$') && !STAGES.contains(&name) {
            // A stage that does not exist at all gets the error of the parser.
            Pipeline::parse(stages, variables)?;
            let words = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(Failure::new(20, words));
        }
    }
    Ok(Pipeline::parse(stages, variables)?)
}
