//! One query from its queue to its end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_stdx::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::process::{SpillFolder, Worker};
use super::query::{Piece, Query, State, Unlisted, Waiting, Waits};
use super::running::Listed;
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
        () = tokio::time::sleep(time) => Err(timed_out(time, listed.awaits_tables())),
    };
    let outcome = outcome.map_err(|failure| explained(failure, unlisted.as_ref()));
    state.figures.ended(outcome.as_ref(), Clock::System.elapsed().saturating_sub(started));
    // A query that is not listed any more is counted.
    drop(listed);
    match (outcome, began) {
        (Ok(statistics), _) => drop(pieces.send(Piece::End(statistics)).await),
        (Err(failure), Some(began)) => drop(began.send(Err(failure))),
        (Err(failure), None) => drop(pieces.send(Piece::Failed(failure)).await),
    }
}

fn timed_out(time: Duration, awaits_tables: bool) -> Failure {
    let seconds = time.as_secs();
    let message = match awaits_tables {
        true => format!(
            "the tables of the statement had not reached \"atLeast\" within {seconds} s: send a greater \"timeoutSeconds\", or leave \"atLeast\" out"
        ),
        false => format!(
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

async fn work(
    state: &State,
    mut query: Query,
    (waiting, listed): (Waiting, &Listed),
    (began, pieces): (&mut Option<Began>, &mpsc::Sender<Piece>),
) -> Result<Statistics, Failure> {
    let _permit = state.permits.acquire().await.expect("the queue is never closed");
    drop(waiting);
    listed.has_worker();
    let spill = SpillFolder::create(state.settings.spill_folder.join(&query.id)).map_err(|error| {
        Failure::new(FailureKind::Internal, format!("the folder of spill files cannot be made: {error}"))
    })?;
    let waits = query.waits.take();
    let order = order_of(state, query, waits.is_some(), spill.path());
    let worker = state.workers.take(spill)?;
    match converse((&worker, listed), &order, waits, (began, pieces)).await {
        Ok(Ended::ByItself(outcome)) => {
            state.workers.give_back(worker);
            outcome
        }
        // The worker waits in the middle of the order, and is dropped.
        Ok(Ended::Midway(failure)) => Err(failure),
        Err(_) => Err(worker.ending().await),
    }
}

enum Ended {
    ByItself(Result<Statistics, Failure>),
    Midway(Failure),
}

fn order_of(state: &State, query: Query, waits_for_tables: bool, spill_folder: &Path) -> Order {
    let mut limits = state.settings.limits;
    limits.seconds = query.time.as_secs();
    Order {
        statement: query.statement,
        parameters: query.parameters,
        database: query.database,
        tables: query.tables,
        as_of: query.as_of,
        format: query.format,
        bigints_as_text: query.bigints_as_text,
        now: query.now,
        waits_for_tables,
        limits,
        spill_folder: spill_folder.to_owned(),
    }
}

/// Talks with the worker until the query ends. An error is one of the stream: the worker is of no use then.
async fn converse(
    (worker, listed): (&Worker, &Listed),
    order: &Order,
    mut waits: Option<Waits>,
    (began, pieces): (&mut Option<Began>, &mpsc::Sender<Piece>),
) -> io::Result<Ended> {
    let mut stream = BufReader::new(worker.stream()?);
    send(&mut stream, &order.message()).await?;
    loop {
        match read(&mut stream).await? {
            Message::Names(names) => {
                let Some(waits) = waits.take() else { return Err(io::ErrorKind::InvalidData.into()) };
                listed.set_awaits_tables(true);
                let awaited = waits(names).await;
                listed.set_awaits_tables(false);
                match awaited {
                    Ok(tables) => send(&mut stream, &Message::Go(tables)).await?,
                    Err(failure) => return Ok(Ended::Midway(failure)),
                }
            }
            Message::Head(head) => {
                if let Some(began) = began.take() {
                    // A client that has left is noticed by its closed channel.
                    let _ = began.send(Ok(head));
                }
            }
            Message::Data(data) => {
                let _ = pieces.send(Piece::Data(Bytes::from(data))).await;
            }
            Message::End(statistics) => return Ok(Ended::ByItself(Ok(statistics))),
            Message::Failed(failure) => return Ok(Ended::ByItself(Err(failure))),
            Message::Order(_) | Message::Go(_) => return Err(io::ErrorKind::InvalidData.into()),
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
