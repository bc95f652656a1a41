//! One query from its queue to its end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_stdx::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::process::{SpillFolder, Worker};
use super::query::{Piece, Query, State, Unlisted, Waiting};
use super::running::{Listed, QueryState};
use crate::protocol::{Failure, FailureKind, HEADER_BYTES, Head, Message, Order, Statistics, header_parts};

type Began = oneshot::Sender<Result<Head, Failure>>;

pub(super) async fn conduct(
    state: Arc<State>,
    mut query: Query,
    (waiting, listed): (Waiting, Listed),
    began: Began,
    pieces: mpsc::Sender<Piece>,
) {
    let started = Clock::System.elapsed();
    let time = query.time;
    let unlisted = query.unlisted.take();
    let mut began = Some(began);
    let outcome = tokio::select! {
        outcome = work(&state, query, (waiting, &listed), (&mut began, &pieces)) => outcome,
        () = listed.cancelled.notified() => Err(Failure::new(FailureKind::Cancelled, "the query was cancelled")),
        () = pieces.closed() => Err(Failure::new(FailureKind::Cancelled, "the client disconnected")),
        () = tokio::time::sleep(time) => Err(timed_out(time, listed.state())),
    };
    let outcome = outcome.map_err(|failure| explained(failure, unlisted.as_ref()));
    state.figures.ended(
        outcome.as_ref().map(|(_, statistics)| statistics),
        Clock::System.elapsed().saturating_sub(started),
    );
    // A query that is not listed any more is counted.
    drop(listed);
    match (outcome, began) {
        (Ok((last, statistics)), _) => {
            // A client that has left needs neither.
            if !last.is_empty() {
                let _ = pieces.send(Piece::Data(last)).await;
            }
            let _ = pieces.send(Piece::End(statistics)).await;
        }
        (Err(failure), Some(began)) => drop(began.send(Err(failure))),
        (Err(failure), None) => drop(pieces.send(Piece::Failed(failure)).await),
    }
}

fn timed_out(time: Duration, state: QueryState) -> Failure {
    let seconds = time.as_secs();
    let message = match state {
        QueryState::AwaitsTables => format!(
            "the tables of the statement had not reached \"atLeast\" within {seconds} s: send a greater \"timeoutSeconds\", or leave \"atLeast\" out"
        ),
        QueryState::Waits | QueryState::Runs => format!(
            "the query was not done within {seconds} s: filter or aggregate earlier, or send a greater \"timeoutSeconds\""
        ),
    };
    Failure::new(FailureKind::TimedOut, message)
}

/// A statement that names a container without a table is refused for that reason.
fn explained(failure: Failure, unlisted: Option<&Unlisted>) -> Failure {
    let (Some((database, container)), Some(unlisted)) = (failure.table.as_deref(), unlisted) else {
        return failure;
    };
    match unlisted(database, container) {
        Some(refusal) => failure.because(&refusal),
        None => failure,
    }
}

/// The last bytes of the answer, and its figures.
async fn work(
    state: &State,
    mut query: Query,
    (waiting, listed): (Waiting, &Listed),
    answer: (&mut Option<Began>, &mpsc::Sender<Piece>),
) -> Result<(Bytes, Statistics), Failure> {
    let permit = || async { state.permits.acquire().await.expect("the queue is never closed") };
    if let Some(waits) = query.waits.take() {
        // The wait that follows keeps no worker.
        let named = {
            let _permit = permit().await;
            ask(state, &mut query, true, (&mut None, answer.1)).await?
        };
        let Ended::Names(names) = named else { return Err(Failure::new(FailureKind::Internal, CONFUSED)) };
        listed.set_state(QueryState::AwaitsTables);
        query.tables = waits(names).await?;
        listed.set_state(QueryState::Waits);
    }
    let _permit = permit().await;
    drop(waiting);
    listed.set_state(QueryState::Runs);
    match ask(state, &mut query, false, answer).await? {
        Ended::Answer(last, statistics) => Ok((last, statistics)),
        Ended::Names(_) => Err(Failure::new(FailureKind::Internal, CONFUSED)),
    }
}

const CONFUSED: &str = "the worker answered to another order";

enum Ended {
    Names(Vec<(String, String)>),
    Answer(Bytes, Statistics),
}

/// Asks a worker for the answer, or for the names of tables alone.
async fn ask(
    state: &State,
    query: &mut Query,
    names_only: bool,
    answer: (&mut Option<Began>, &mpsc::Sender<Piece>),
) -> Result<Ended, Failure> {
    let spill = SpillFolder::create(state.settings.spill_folder.join(&query.id)).map_err(|error| {
        Failure::new(FailureKind::Internal, format!("the folder of spill files cannot be made: {error}"))
    })?;
    let mut limits = state.settings.limits;
    limits.seconds = query.time.as_secs();
    let order = Order {
        statement: query.statement.clone(),
        parameters: query.parameters.clone(),
        database: query.database.clone(),
        tables: std::mem::take(&mut query.tables),
        as_of: query.as_of.clone(),
        format: query.format,
        bigints_as_text: query.bigints_as_text,
        now: query.now,
        names_only,
        limits,
        spill_folder: spill.path().to_owned(),
    };
    let worker = state.workers.take(spill)?;
    match converse(&worker, &order, answer).await {
        Ok(outcome) => {
            state.workers.give_back(worker);
            outcome
        }
        Err(_) => Err(worker.ending().await),
    }
}

/// Talks with the worker until the query ends. An error is one of the stream: the worker is of no use then.
async fn converse(
    worker: &Worker,
    order: &Order,
    (began, pieces): (&mut Option<Began>, &mpsc::Sender<Piece>),
) -> io::Result<Result<Ended, Failure>> {
    let mut stream = BufReader::new(worker.stream()?);
    send(&mut stream, &order.message()).await?;
    loop {
        match read(&mut stream).await? {
            Message::Names(names) => return Ok(Ok(Ended::Names(names))),
            Message::Head(head) => {
                if let Some(began) = began.take() {
                    // A client that has left is noticed by its closed channel.
                    let _ = began.send(Ok(head));
                }
            }
            Message::Data(data) => {
                let _ = pieces.send(Piece::Data(Bytes::from(data))).await;
            }
            Message::End(last, statistics) => return Ok(Ok(Ended::Answer(Bytes::from(last), statistics))),
            Message::Failed(failure) => return Ok(Err(failure)),
            Message::Order(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

async fn send(stream: &mut BufReader<UnixStream>, message: &Message) -> io::Result<()> {
    let mut frame = Vec::new();
    message.write_to(&mut frame);
    stream.get_mut().write_all(&frame).await
}

async fn read(stream: &mut BufReader<UnixStream>) -> io::Result<Message> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    let (length, kind) = header_parts(header)?;
    let mut content = Vec::new();
    // The buffer grows with the bytes that arrive, not with the announced length.
    if stream.take(length as u64).read_to_end(&mut content).await? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Message::decode(kind, &content)
}
