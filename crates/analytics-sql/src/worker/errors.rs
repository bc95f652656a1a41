//! Errors of the query engine as failures: the remedy first, without the engine's own words for its parts.

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;

use super::names::unknown_column;
use crate::protocol::{Failure, FailureKind};
use crate::table::Refusal;

pub(super) fn failure(error: &DataFusionError) -> Failure {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let failed = of_root(error.find_root());
    match span {
        Some(span)
            if failed.line.is_none() && failed.kind == FailureKind::Statement && span.start.line > 0 =>
        {
            failed.at(span.start.line, span.start.column)
        }
        _ => failed,
    }
}

fn of_root(error: &DataFusionError) -> Failure {
    let statement = |message: String| Failure::new(FailureKind::Statement, message);
    match error {
        DataFusionError::External(source) => match source.downcast_ref::<Refusal>() {
            Some(refusal) => Failure::of_refusal(refusal),
            None => match source.downcast_ref::<DataFusionError>() {
                Some(inner) => of_root(inner.find_root()),
                None => Failure::new(FailureKind::Internal, source.to_string()),
            },
        },
        DataFusionError::SQL(error, _) => statement(error.to_string()),
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { field, valid_fields } => {
                statement(unknown_column(field, valid_fields))
            }
            other => statement(other.to_string()),
        },
        DataFusionError::ResourcesExhausted(message) => needs_too_much(message),
        // A spill file that passes the limit fails as a write.
        DataFusionError::IoError(error) if is_of_disk(&error.to_string()) => {
            needs_too_much(&error.to_string())
        }
        DataFusionError::ArrowError(error, _) if is_of_disk(&error.to_string()) => {
            needs_too_much(&error.to_string())
        }
        DataFusionError::ParquetError(error) => damaged(error),
        DataFusionError::ArrowError(error, _) => match &**error {
            arrow_schema::ArrowError::ExternalError(source) => match source.downcast_ref::<DataFusionError>()
            {
                Some(inner) => of_root(inner.find_root()),
                None => statement(source.to_string()),
            },
            arrow_schema::ArrowError::ParquetError(message) => {
                Failure::new(FailureKind::Damaged, format!("the table cannot be read: {message}"))
            }
            other => statement(other.to_string()),
        },
        DataFusionError::IoError(error) => {
            Failure::new(FailureKind::Internal, format!("a spill file failed: {error}"))
        }
        DataFusionError::Internal(message) => Failure::new(
            FailureKind::Internal,
            format!(
                "the query engine has a defect with this statement: write it in another way, and report it: {message}"
            ),
        ),
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::NotImplemented(message)
        | DataFusionError::Configuration(message) => statement(message.clone()),
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            of_root(inner.find_root())
        }
        DataFusionError::Shared(inner) => of_root(inner.find_root()),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => of_root(first.find_root()),
            None => statement("the statement is wrong".into()),
        },
        other => Failure::new(FailureKind::Internal, other.to_string()),
    }
}

fn needs_too_much(message: &str) -> Failure {
    let (setting, need) = match is_of_disk(message) {
        true => ("--analytics-sql-spill", "disk for intermediate results"),
        false => ("--analytics-sql-memory", "memory"),
    };
    let first_line = message.lines().next().unwrap_or_default();
    Failure::new(
        FailureKind::NeedsTooMuch,
        format!(
            "the query needs more {need} than it may use: filter or aggregate earlier, or raise {setting} ({first_line})"
        ),
    )
}

fn damaged(error: &ParquetError) -> Failure {
    Failure::new(FailureKind::Damaged, format!("the table cannot be read: {error}; rebuild it"))
}

fn is_of_disk(message: &str) -> bool {
    message.contains("disk space")
}
