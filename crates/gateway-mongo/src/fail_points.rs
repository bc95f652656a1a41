//! The fail point `failCommand`: makes commands fail on purpose, so that test suites of drivers can see what these do.
//!
//! There only where the server was started with test commands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardlake_mql::{Document, Value};

use crate::errors::{CommandError, Result};

/// How often a fail point strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Always,
    Times(u64),
    /// After so many commands that it would have struck, always.
    Skip(u64),
}

/// What it strikes, and how.
#[derive(Debug, Clone, Default)]
pub struct FailCommand {
    pub commands: Vec<String>,
    /// `None` strikes every application.
    pub application: Option<String>,
    pub error_code: Option<i32>,
    pub error_labels: Option<Vec<String>>,
    pub closes_connection: bool,
    pub blocks_for: Option<Duration>,
    pub write_concern_error: Option<Arc<Document>>,
}

/// What happens to one command.
#[derive(Debug, Clone)]
pub struct Strike {
    pub closes_connection: bool,
    pub blocks_for: Option<Duration>,
    error: Option<CommandError>,
    write_concern_error: Option<Arc<Document>>,
}

#[derive(Debug, Default)]
pub struct FailPoints(Mutex<Option<(Mode, FailCommand, u64)>>);

impl FailPoints {
    /// Sets the fail point, or takes it away. Answers how many commands the one before has struck.
    pub fn set(&self, point: Option<(Mode, FailCommand)>) -> u64 {
        let point = point.map(|(mode, data)| (mode, data, 0));
        let before = std::mem::replace(&mut *self.lock(), point);
        before.map_or(0, |(_, _, struck)| struck)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Mode, FailCommand, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to this command of this application.
    pub fn strike(&self, command: &str, application: Option<&str>) -> Option<Strike> {
        let mut point = self.lock();
        let (mode, data, struck) = point.as_mut()?;
        let is_meant = data.commands.iter().any(|name| name == command)
            && data.application.as_deref().is_none_or(|name| application == Some(name));
        if !is_meant {
            return None;
        }
        match mode {
            Mode::Always => {}
            Mode::Times(0) => return None,
            Mode::Times(left) => *left -= 1,
            Mode::Skip(0) => {}
            Mode::Skip(left) => {
                *left -= 1;
                return None;
            }
        }
        *struck += 1;
        Some(data.strike())
    }
}

impl FailCommand {
    fn strike(&self) -> Strike {
        let error = self.error_code.map(|code| {
            let error = CommandError::new(code, "Failing command via 'failCommand' failpoint");
            match &self.error_labels {
                Some(labels) => error.with_given_labels(labels.iter().cloned()),
                None => error,
            }
        });
        Strike {
            closes_connection: self.closes_connection,
            blocks_for: self.blocks_for,
            error,
            write_concern_error: self.write_concern_error.clone(),
        }
    }
}

impl Strike {
    /// The error instead of the command, or what is told of its write concern after it.
    pub fn into_outcome(self) -> Result<Option<Arc<Document>>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.write_concern_error),
        }
    }
}

/// Reads the texts of a list.
pub fn texts(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?;
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(points: &FailPoints, command: &str, application: Option<&str>) -> bool {
        points.strike(command, application).is_some()
    }

    #[test]
    fn a_fail_point_strikes_what_it_names_as_often_as_it_says() {
        let points = FailPoints::default();
        let data = || FailCommand { commands: vec!["find".into()], ..FailCommand::default() };
        points.set(Some((Mode::Times(2), data())));
        assert!(!struck(&points, "insert", None));
        assert_eq!([0; 3].map(|_| struck(&points, "find", None)), [true, true, false]);
        assert_eq!(points.set(Some((Mode::Skip(1), data()))), 2);
        assert_eq!([0; 3].map(|_| struck(&points, "find", None)), [false, true, true]);
        let named = FailCommand { application: Some("a".into()), ..data() };
        points.set(Some((Mode::Always, named)));
        assert!(!struck(&points, "find", None) && !struck(&points, "find", Some("b")));
        assert!(struck(&points, "find", Some("a")));
        points.set(None);
        assert!(!struck(&points, "find", Some("a")));
    }
}
