//! Exchanges whose recorded answer is wrong, with the right status.

use std::collections::BTreeMap;

use super::recording::Exchange;
use crate::harness::Answer;

/// The number of `fault` lines, which falls with each fault that is mended and never rises.
const FAULTS_MAX: usize = 8;

/// The lines of one file, by the number of the exchange.
pub struct Exceptions(BTreeMap<u64, Line>);

#[derive(Clone, Copy)]
enum Line {
    /// This server gives the wrong answer, too. The right status and substatus.
    Fault(u16, u32),
    /// This server gives the right answer.
    Right(u16, u32),
}

impl Exceptions {
    pub fn of(file: &str) -> Exceptions {
        let lines = include_str!("exceptions.txt").lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut own = BTreeMap::new();
        let mut faults = 0;
        for text in lines {
            let (name, seq, line) =
                line_of(text).unwrap_or_else(|| panic!("'{text}' is not a line of the list"));
            faults += usize::from(matches!(line, Line::Fault(..)));
            if name == file {
                own.insert(seq, line);
            }
        }
        assert_eq!(faults, FAULTS_MAX, "the number of fault lines: it may only fall");
        Exceptions(own)
    }

    /// The faults of an exchange, as text.
    pub fn judge(&self, exchange: &Exchange, answer: &Answer, differences: Vec<String>) -> Vec<String> {
        let got = (answer.status, answer.substatus());
        match self.0.get(&exchange.seq) {
            None => differences,
            Some(Line::Fault(status, substatus)) if got == (*status, *substatus) => {
                vec!["is right now: make its line a 'right' one, and lower FAULTS_MAX".to_owned()]
            }
            // A fault that is listed is at least the recorded one.
            Some(Line::Fault(..)) => differences,
            Some(Line::Right(status, substatus)) if got == (*status, *substatus) => Vec::new(),
            Some(Line::Right(..)) => vec![format!("{got:?} is not the right answer: {}", answer.text)],
        }
    }
}

/// `FILE SEQ fault|right STATUS/SUBSTATUS REASON`
fn line_of(text: &str) -> Option<(&str, u64, Line)> {
    let mut words = text.splitn(5, ' ');
    let (name, seq, kind) = (words.next()?, words.next()?, words.next()?);
    let (status, substatus) = words.next()?.split_once('/')?;
    words.next().filter(|reason| reason.len() > 10)?;
    let (status, substatus) = (status.parse().ok()?, substatus.parse().ok()?);
    let line = match kind {
        "fault" => Line::Fault(status, substatus),
        "right" => Line::Right(status, substatus),
        _ => return None,
    };
    Some((name, seq.parse().ok()?, line))
}
