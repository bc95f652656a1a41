//! The fail point `failCommand`, and `failGetMoreAfterCursorCheckout`, which is the same for one command: commands fail on purpose, so
//! that test suites of drivers can see how the drivers answer.
//!
//! There only where the server was started with test commands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardlake_mql::{Document, Value};

use crate::errors::{CommandError, Result};

/// How often a fail point strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Commands that it would have struck, and passes over.
    pub skip: u64,
    /// `None`: always.
    pub times: Option<u64>,
}

/// Targets and effects of the fail point.
#[derive(Debug, Clone, Default)]
pub struct FailCommand {
    pub commands: Vec<String>,
    /// `None` strikes every application.
    pub application: Option<String>,
    /// `None` strikes every collection.
    pub namespace: Option<String>,
    /// Strikes when the command has begun, so that its error is one of the command.
    pub is_inside: bool,
    /// Further fields of the error.
    pub error_fields: Option<Arc<Document>>,
    pub error_code: Option<i32>,
    pub error_labels: Option<Vec<String>>,
    pub closes_connection: bool,
    pub blocks_for: Option<Duration>,
    pub write_concern_error: Option<Arc<Document>>,
}

/// Effect of the fail point on one command.
#[derive(Debug, Clone)]
pub struct Strike {
    pub closes_connection: bool,
    pub blocks_for: Option<Duration>,
    pub is_inside: bool,
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

    /// Effect on this command, by each of its spellings.
    pub fn strike(&self, aim: &Aim<'_>) -> Option<Strike> {
        let mut point = self.lock();
        let (mode, data, struck) = point.as_mut()?;
        if !data.means(aim) {
            return None;
        }
        if mode.skip > 0 {
            mode.skip -= 1;
            return None;
        }
        match &mut mode.times {
            None => {}
            Some(0) => return None,
            Some(left) => *left -= 1,
        }
        *struck += 1;
        Some(data.strike())
    }
}

/// A command that a fail point may strike.
#[derive(Debug, Clone, Copy)]
pub struct Aim<'a> {
    pub name: &'a str,
    pub aliases: &'a [&'a str],
    pub application: Option<&'a str>,
    pub namespace: Option<&'a str>,
}

impl FailCommand {
    fn means(&self, aim: &Aim<'_>) -> bool {
        let is_named = |name: &String| name == aim.name || aim.aliases.contains(&name.as_str());
        self.commands.iter().any(is_named)
            && self.application.as_deref().is_none_or(|name| aim.application == Some(name))
            && self.namespace.as_deref().is_none_or(|name| aim.namespace == Some(name))
    }

    fn strike(&self) -> Strike {
        let error = self.error_code.map(|code| {
            let error = CommandError::new(code, "Failing command via 'failCommand' failpoint");
            let fields = self.error_fields.iter().flat_map(|fields| fields.iter());
            let error = fields.fold(error, |error, (name, value)| error.with_field(name, value.clone()));
            match &self.error_labels {
                Some(labels) => error.with_given_labels(labels.iter().cloned()),
                None => error,
            }
        });
        Strike {
            closes_connection: self.closes_connection,
            blocks_for: self.blocks_for,
            is_inside: self.is_inside,
            error,
            write_concern_error: self.write_concern_error.clone(),
        }
    }
}

impl Strike {
    /// The error instead of the command, or the write concern error to report after it.
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

    fn struck(points: &FailPoints, name: &str, application: Option<&str>) -> bool {
        let aim = Aim { name, aliases: &["FIND"], application, namespace: Some("d.c") };
        points.strike(&aim).is_some()
    }

    #[test]
    fn a_fail_point_strikes_what_it_names_as_often_as_it_says() {
        let points = FailPoints::default();
        let data = || FailCommand { commands: vec!["find".into()], ..FailCommand::default() };
        let times = |times| Mode { times: Some(times), ..Mode::default() };
        points.set(Some((times(2), data())));
        assert!(!struck(&points, "insert", None));
        assert_eq!([0; 3].map(|_| struck(&points, "find", None)), [true, true, false]);
        assert_eq!(points.set(Some((Mode { skip: 1, times: None }, data()))), 2);
        assert_eq!([0; 3].map(|_| struck(&points, "find", None)), [false, true, true]);
        points.set(Some((Mode { skip: 1, times: Some(1) }, data())));
        assert_eq!([0; 3].map(|_| struck(&points, "find", None)), [false, true, false]);
        let other_spelling = FailCommand { commands: vec!["FIND".into()], ..FailCommand::default() };
        points.set(Some((Mode::default(), other_spelling)));
        assert!(struck(&points, "find", None));
        for (namespace, is_struck) in [("d.c", true), ("d.e", false)] {
            points.set(Some((Mode::default(), FailCommand { namespace: Some(namespace.into()), ..data() })));
            assert_eq!(struck(&points, "find", None), is_struck);
        }
        let named = FailCommand { application: Some("a".into()), ..data() };
        points.set(Some((Mode::default(), named)));
        assert!(!struck(&points, "find", None) && !struck(&points, "find", Some("b")));
        assert!(struck(&points, "find", Some("a")));
        points.set(None);
        assert!(!struck(&points, "find", Some("a")));
    }
}
