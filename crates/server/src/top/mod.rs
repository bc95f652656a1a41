//! `shardlake top`: a live view of a running server in the terminal: load by container and partition, hot keys, the process.
//!
//! | file | responsibility |
//! |---|---|
//! | `sample.rs` | the figures of one second, asked of the server |
//! | `table.rs` | the figures as lines of text |
//! | `screen.rs` | the terminal: its mode, keys, drawing, and its restoration |

mod sample;
mod screen;
mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use crate::operate::{Client, Connection, Paint, ignore_closed};
use screen::Screen;

const REFRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Top {
    /// Print the figures once, and end
    #[arg(long)]
    once: bool,
    /// Text, or JSON: one object a second, in one line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Seconds that rates are averaged over
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    window: u32,
    /// Containers to show, the busiest first
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    containers: u32,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub async fn run(arguments: &Top) -> Result<ExitCode, String> {
    let client = arguments.connection.client()?;
    let paint = arguments.connection.paint();
    let take = async || sample::take(&client, arguments.window, arguments.containers as usize).await;
    // A server that cannot be asked is an error before the terminal changes.
    let first = take().await?;
    if arguments.once || arguments.format == Format::Json || !io::stdout().is_terminal() {
        print_each(arguments, (&client, first), paint).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::open()?;
    let shown = show(&mut screen, first, paint, take).await;
    // An error is printed on the terminal as it was.
    drop(screen);
    shown.map(|()| ExitCode::SUCCESS)
}

/// Prints the figures once, or each second until the reader closes the pipe.
async fn print_each(arguments: &Top, (client, first): (&Client, Value), paint: Paint) -> Result<(), String> {
    let mut sample = first;
    let mut ticks = ticks();
    ticks.tick().await;
    loop {
        let text = match arguments.format {
            Format::Json => format!("{sample}\n"),
            Format::Text => {
                table::lines(&sample, None).iter().map(|line| line.painted(paint) + "\n").collect()
            }
        };
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        drop(out);
        let is_closed = written.is_err();
        ignore_closed(written)?;
        if arguments.once || is_closed {
            return Ok(());
        }
        ticks.tick().await;
        sample = sample::take(client, arguments.window, arguments.containers as usize).await?;
    }
}

/// Draws until a key or a signal ends the view. While the server does not answer, its last figures stay.
async fn show(
    screen: &mut Screen,
    first: Value,
    paint: Paint,
    take: impl AsyncFn() -> Result<Value, String>,
) -> Result<(), String> {
    let mut sample = first;
    let mut trouble = None;
    let mut ticks = ticks();
    ticks.tick().await;
    loop {
        screen.draw(&table::lines(&sample, trouble.as_deref()), paint)?;
        tokio::select! {
            ended = screen.ended() => return ended,
            _ = ticks.tick() => {}
        }
        // A slow server does not delay the end.
        let taken = tokio::select! {
            ended = screen.ended() => return ended,
            taken = take() => taken,
        };
        match taken {
            Ok(taken) => (sample, trouble) = (taken, None),
            Err(error) => trouble = Some(error),
        }
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
