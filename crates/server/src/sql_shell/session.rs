//! A session: the container in use, its queries, and how their rows are shown.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::answer::{Figures, Format, Look, Printer, terminal_line};
use super::complaint::complaint;
use crate::data::{DataClient, Failure, Page, Parameter, Place, Query, members};
use crate::number_text::printable;

/// Rows of a table, unless `--limit` has another number.
const TABLE_ROWS: u64 = 1_000;
/// Rows of one page.
const PAGE_ROWS: u64 = 1_000;
/// Bytes of rows that a table or CSV needs at once.
const COLLECTED_BYTES_MAX: usize = 256 << 20;
/// Names of properties that are kept for completion.
const PROPERTIES_MAX: usize = 2_000;

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Failed,
    Exit,
}

pub struct Session {
    pub client: DataClient,
    /// Either name may be empty.
    pub place: Place,
    /// JSON, such as `["ada"]`.
    pub partition_key: Option<String>,
    pub limit: Option<u64>,
    pub parameters: Vec<Parameter>,
    pub look: Look,
    pub is_interactive: bool,
    /// Names of properties in results, for completion.
    pub properties: BTreeSet<String>,
    /// The last query, where it has further rows.
    rest: Option<Query>,
}

impl Session {
    pub fn new(client: DataClient, place: Place, look: Look) -> Session {
        Session {
            client,
            place,
            partition_key: None,
            limit: None,
            parameters: Vec::new(),
            look,
            is_interactive: false,
            properties: BTreeSet::new(),
            rest: None,
        }
    }

    /// Rows that a statement fetches at most.
    fn rows_max(&self) -> u64 {
        match self.limit {
            Some(0) => u64::MAX,
            Some(rows) => rows,
            None if self.look.format == Format::Table => TABLE_ROWS,
            None => u64::MAX,
        }
    }

    /// Runs a query. Refusals are printed; an error ends the session.
    pub async fn query(&mut self, text: &str) -> Result<Flow, String> {
        if self.place.database.is_empty() || self.place.container.is_empty() {
            let known = self.client.known_places().await;
            let how =
                if self.is_interactive { "`use DATABASE/CONTAINER`" } else { "--database and --container" };
            print_error(&format!("error: no container is chosen: give one with {how}; {known}\n"));
            return Ok(Flow::Failed);
        }
        let mut query = Query::new(self.place.clone(), text.to_owned(), self.partition_key.clone());
        query.parameters.clone_from(&self.parameters);
        self.fetch(query).await
    }

    /// Rows behind those that the limit has ended at.
    pub async fn more(&mut self) -> Result<Flow, String> {
        match self.rest.take() {
            Some(query) => self.fetch(query).await,
            None => Err("the last query has no further rows".to_owned()),
        }
    }

    async fn fetch(&mut self, mut query: Query) -> Result<Flow, String> {
        self.rest = None;
        // The terminal may have been resized.
        self.look.line = terminal_line();
        let (mut figures, mut printer) = (Figures::default(), Printer::new(self.look));
        let rows_max = self.rows_max();
        let mut stopped = None;
        loop {
            let wanted = PAGE_ROWS.min(rows_max - figures.rows);
            assert!(wanted > 0, "the loop ends at the limit");
            let page = match self.page(&mut query, wanted).await {
                None => {
                    stopped = Some("cancelled: these are the rows so far".to_owned());
                    break;
                }
                Some(Ok(page)) => page,
                Some(Err(failure)) => {
                    print_error(&complaint(&failure, &query.text));
                    return Ok(Flow::Failed);
                }
            };
            figures.add(&page);
            self.remember_properties(&page);
            if is_closed(&printer.rows(page.rows, &mut io::stdout().lock()))? {
                return Ok(Flow::Exit);
            }
            if query.continuation.is_none() {
                break;
            }
            if printer.collected_bytes() > COLLECTED_BYTES_MAX {
                stopped = Some(
                    "stopped: more rows than fit into memory; use --format jsonl, or `shardlake export`"
                        .to_owned(),
                );
                break;
            }
            if figures.rows >= rows_max {
                let how = if self.is_interactive { "`more` fetches on" } else { "--limit 0 fetches all" };
                stopped = Some(format!("stopped at the limit of rows: {how}"));
                self.rest = Some(query);
                break;
            }
        }
        if is_closed(&printer.finish(&mut io::stdout().lock()))? {
            return Ok(Flow::Exit);
        }
        self.remark(&figures.words())?;
        if let Some(words) = stopped {
            self.remark(&words)?;
        }
        Ok(Flow::Continue)
    }

    /// `None` for a query that Ctrl-C has cancelled. Without a terminal, the signal ends the program.
    async fn page(&self, query: &mut Query, rows: u64) -> Option<Result<Page, Failure>> {
        if !self.is_interactive {
            return Some(query.next(&self.client, rows).await);
        }
        tokio::select! {
            // First, so that the signal is caught before the request is sent.
            biased;
            _ = tokio::signal::ctrl_c() => None,
            page = query.next(&self.client, rows) => Some(page),
        }
    }

    /// Remarks of a shell are part of its screen; those of a script stay out of its output.
    fn remark(&self, words: &str) -> Result<(), String> {
        if self.is_interactive {
            self.print(&format!("{}\n", self.look.paint.faint(&format!("-- {words}"))))
        } else {
            print_error(&format!("-- {words}\n"));
            Ok(())
        }
    }

    pub fn print(&self, text: &str) -> Result<(), String> {
        let mut out = io::stdout().lock();
        is_closed(&out.write_all(text.as_bytes()).and_then(|()| out.flush())).map(drop)
    }

    fn remember_properties(&mut self, page: &Page) {
        if !self.is_interactive {
            return;
        }
        for row in page.rows.iter().take(100) {
            for (name, _) in members(row.get()).unwrap_or_default() {
                if self.properties.len() < PROPERTIES_MAX {
                    self.properties.insert(name);
                }
            }
        }
    }
}

/// Whether the reader has closed the pipe, which ends the session without an error.
fn is_closed(written: &io::Result<()>) -> Result<bool, String> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(format!("standard output cannot be written: {error}")),
    }
}

/// Standard error may be closed.
pub fn print_error(text: &str) {
    let _ = io::stderr().write_all(printable(text).as_bytes());
}
