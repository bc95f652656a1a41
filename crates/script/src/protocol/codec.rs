//! Messages as bytes: a tag, then the fields in order; texts and lists with their length before them.
//!
//! A decoder takes any bytes: what is cut short, too long or of no known tag is [`Malformed`].

use std::time::Duration;

use super::{Failure, FailureKind, HEADER_BYTES, Order, OrderedRole, Report, RunOrder, Used};
use crate::confined::Confined;
use crate::settings::ScriptLimits;
use crate::store::{StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Collects frames, each with its header.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    frame_start: usize,
}

impl Encoder {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Gives back what large frames took.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.bytes.shrink_to(bytes);
    }

    /// The frames so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn order(&mut self, order: &Order) {
        self.begin();
        match order {
            Order::Check { source } => {
                self.byte(1);
                self.text(source);
            }
            Order::Run(run) => {
                self.byte(2);
                self.run(run);
            }
            Order::Functions { definitions, limits } => {
                self.byte(3);
                self.number(definitions.len() as u64);
                for (name, source) in definitions {
                    self.text(name);
                    self.text(source);
                }
                self.limits(limits);
            }
            Order::Call { function, time, rows } => {
                self.call_head(*function, *time, rows.len());
                rows.iter().for_each(|row| self.row(row));
            }
            Order::Release => self.byte(5),
            Order::Reply(reply) => {
                self.byte(6);
                self.reply(reply);
            }
        }
        self.end();
    }

    /// [`Order::Call`] of borrowed rows.
    pub(crate) fn call(&mut self, function: u32, time: Duration, rows: &[Vec<Option<String>>]) {
        self.begin();
        self.call_head(function, time, rows.len());
        rows.iter().for_each(|row| self.row(row));
        self.end();
    }

    fn call_head(&mut self, function: u32, time: Duration, rows: usize) {
        self.byte(4);
        self.number(function.into());
        self.time(time);
        self.number(rows as u64);
    }

    fn row(&mut self, row: &[Option<String>]) {
        self.number(row.len() as u64);
        row.iter().for_each(|value| self.optional(value.as_deref()));
    }

    pub(crate) fn report(&mut self, report: &Report) {
        self.begin();
        match report {
            Report::Store(requests) => {
                self.byte(1);
                self.number(requests.len() as u64);
                requests.iter().for_each(|request| self.request(request));
            }
            Report::Ready => self.byte(2),
            Report::Results { values, processor } => {
                self.byte(3);
                self.row(values);
                self.time(*processor);
            }
            Report::Completed { response_body, request_body, log, used } => {
                self.byte(4);
                self.optional(response_body.as_deref());
                self.optional(request_body.as_deref());
                self.text(log);
                self.used(*used);
            }
            Report::Failed { failure, used } => {
                self.byte(5);
                self.failure_kind(failure.kind);
                self.text(&failure.message);
                self.used(*used);
            }
            Report::Confined(confined) => {
                self.byte(6);
                self.byte(confined.bits());
            }
        }
        self.end();
    }

    fn run(&mut self, run: &RunOrder) {
        self.text(&run.name);
        self.text(&run.source);
        match &run.role {
            OrderedRole::Procedure { arguments } => {
                self.byte(1);
                self.text(arguments);
            }
            OrderedRole::PreTrigger { operation, request_body } => {
                self.byte(2);
                self.text(operation);
                self.optional(request_body.as_deref());
            }
            OrderedRole::PostTrigger { operation, request_body, response_body } => {
                self.byte(3);
                self.text(operation);
                self.optional(request_body.as_deref());
                self.optional(response_body.as_deref());
            }
        }
        self.text(&run.self_link);
        self.text(&run.alt_link);
        self.byte(run.logs.into());
        self.limits(&run.limits);
    }

    fn limits(&mut self, limits: &ScriptLimits) {
        self.time(limits.time);
        self.number(limits.steps_max);
        self.number(limits.memory_bytes_max as u64);
        self.number(limits.stack_bytes_max as u64);
        self.number(limits.response_bytes_max as u64);
        self.number(limits.log_bytes_max as u64);
    }

    fn request(&mut self, request: &StoreRequest) {
        self.byte(request.operation as u8);
        self.text(&request.link);
        self.optional(request.body.as_deref());
        self.optional(request.if_match.as_deref());
        self.optional(request.if_none_match.as_deref());
        self.byte(request.page_size.is_some().into());
        self.number(request.page_size.unwrap_or(0) as u64);
        self.optional(request.continuation.as_deref());
        self.byte(request.disables_id_generation.into());
    }

    fn reply(&mut self, reply: &StoreReply) {
        self.byte(reply.accepts_more.into());
        match &reply.outcome {
            Ok(answer) => {
                self.byte(1);
                self.optional(answer.body.as_deref());
                self.optional(answer.continuation.as_deref());
                self.byte(answer.not_modified.into());
            }
            Err(failure) => {
                self.byte(0);
                self.number(failure.number.into());
                self.text(&failure.message);
            }
        }
    }

    fn used(&mut self, used: Used) {
        self.time(used.processor);
        self.byte(used.is_spent.into());
    }

    fn failure_kind(&mut self, kind: FailureKind) {
        match kind {
            FailureKind::Script => self.byte(0),
            FailureKind::Limit => self.byte(1),
            FailureKind::Size => self.byte(2),
            FailureKind::Worker => self.byte(3),
            FailureKind::Numbered(number) => {
                self.byte(4);
                self.number(number.into());
            }
        }
    }

    fn begin(&mut self) {
        self.frame_start = self.bytes.len();
        self.bytes.extend([0; HEADER_BYTES]);
    }

    fn end(&mut self) {
        let length = self.bytes.len() - self.frame_start - HEADER_BYTES;
        // A length past four bytes is past the maximum too, and refused where it is read.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes[self.frame_start..][..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn time(&mut self, time: Duration) {
        self.number(time.as_micros() as u64);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.byte(text.is_some().into());
        if let Some(text) = text {
            self.text(text);
        }
    }
}

/// Takes a message apart.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn order(bytes: &'a [u8]) -> Result<Order, Malformed> {
        let mut decoder = Decoder { bytes };
        let order = match decoder.byte()? {
            1 => Order::Check { source: decoder.text()? },
            2 => Order::Run(decoder.run()?),
            3 => {
                let definitions = decoder.list(|decoder| Ok((decoder.text()?, decoder.text()?)))?;
                Order::Functions { definitions, limits: decoder.limits()? }
            }
            4 => Order::Call {
                function: u32::try_from(decoder.number()?).map_err(|_| Malformed)?,
                time: decoder.time()?,
                rows: decoder.list(|decoder| decoder.list(Decoder::optional))?,
            },
            5 => Order::Release,
            6 => Order::Reply(decoder.reply()?),
            _ => return Err(Malformed),
        };
        decoder.finish(order)
    }

    pub(crate) fn report(bytes: &'a [u8]) -> Result<Report, Malformed> {
        let mut decoder = Decoder { bytes };
        let report = match decoder.byte()? {
            1 => Report::Store(decoder.list(Decoder::request)?),
            2 => Report::Ready,
            3 => Report::Results { values: decoder.list(Decoder::optional)?, processor: decoder.time()? },
            4 => Report::Completed {
                response_body: decoder.optional()?,
                request_body: decoder.optional()?,
                log: decoder.text()?,
                used: decoder.used()?,
            },
            5 => Report::Failed {
                failure: Failure { kind: decoder.failure_kind()?, message: decoder.text()? },
                used: decoder.used()?,
            },
            6 => Report::Confined(Confined::from_bits(decoder.byte()?).ok_or(Malformed)?),
            _ => return Err(Malformed),
        };
        decoder.finish(report)
    }

    fn run(&mut self) -> Result<RunOrder, Malformed> {
        Ok(RunOrder {
            name: self.text()?,
            source: self.text()?,
            role: match self.byte()? {
                1 => OrderedRole::Procedure { arguments: self.text()? },
                2 => OrderedRole::PreTrigger { operation: self.text()?, request_body: self.optional()? },
                3 => OrderedRole::PostTrigger {
                    operation: self.text()?,
                    request_body: self.optional()?,
                    response_body: self.optional()?,
                },
                _ => return Err(Malformed),
            },
            self_link: self.text()?,
            alt_link: self.text()?,
            logs: self.boolean()?,
            limits: self.limits()?,
        })
    }

    fn limits(&mut self) -> Result<ScriptLimits, Malformed> {
        Ok(ScriptLimits {
            time: self.time()?,
            steps_max: self.number()?,
            memory_bytes_max: self.number()? as usize,
            stack_bytes_max: self.number()? as usize,
            response_bytes_max: self.number()? as usize,
            log_bytes_max: self.number()? as usize,
        })
    }

    fn request(&mut self) -> Result<StoreRequest, Malformed> {
        let operation = *StoreOperation::ALL.get(usize::from(self.byte()?)).ok_or(Malformed)?;
        let (link, body) = (self.text()?, self.optional()?);
        let (if_match, if_none_match) = (self.optional()?, self.optional()?);
        let (has_page_size, page_size) = (self.boolean()?, self.number()? as i64);
        Ok(StoreRequest {
            operation,
            link,
            body,
            if_match,
            if_none_match,
            page_size: has_page_size.then_some(page_size),
            continuation: self.optional()?,
            disables_id_generation: self.boolean()?,
        })
    }

    fn reply(&mut self) -> Result<StoreReply, Malformed> {
        let accepts_more = self.boolean()?;
        let outcome = if self.boolean()? {
            Ok(StoreAnswer {
                body: self.optional()?,
                continuation: self.optional()?,
                not_modified: self.boolean()?,
            })
        } else {
            let number = u16::try_from(self.number()?).map_err(|_| Malformed)?;
            Err(StoreFailure { number, message: self.text()? })
        };
        Ok(StoreReply { outcome, accepts_more })
    }

    fn used(&mut self) -> Result<Used, Malformed> {
        Ok(Used { processor: self.time()?, is_spent: self.boolean()? })
    }

    fn failure_kind(&mut self) -> Result<FailureKind, Malformed> {
        Ok(match self.byte()? {
            0 => FailureKind::Script,
            1 => FailureKind::Limit,
            2 => FailureKind::Size,
            3 => FailureKind::Worker,
            4 => FailureKind::Numbered(self.number()?.try_into().map_err(|_| Malformed)?),
            _ => return Err(Malformed),
        })
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = self.number()?;
        // Each item takes a byte at least, so a length cannot announce more than is there.
        if length > self.bytes.len() as u64 {
            return Err(Malformed);
        }
        (0..length).map(|_| item(self)).collect()
    }

    fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.bytes.split_first().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let (first, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*first))
    }

    fn time(&mut self) -> Result<Duration, Malformed> {
        Ok(Duration::from_micros(self.number()?))
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(std::str::from_utf8(text).map_err(|_| Malformed)?.to_owned())
    }

    fn optional(&mut self) -> Result<Option<String>, Malformed> {
        self.boolean()?.then(|| self.text()).transpose()
    }

    fn finish<T>(self, message: T) -> Result<T, Malformed> {
        if self.bytes.is_empty() { Ok(message) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests;
