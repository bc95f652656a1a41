//! The operations of the operator's interface, each of which has one name in metrics and logs.

use http::Method;

use crate::Address;
use crate::account_keys::KeyTarget;
use crate::address::{Action, Target};
use crate::analytics::AnalyticsAction;
use crate::backups::BackupTarget;
use crate::copies::{CopyAction, CopyTarget};
use crate::functions::FunctionAction;
use crate::projections::ProjectionTarget;
use crate::sql::SqlTarget;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminOperation {
    Partitions,
    Split,
    Merge,
    Move,
    AbortRelocation,
    Throughput,
    Heat,
    Key,
    Query,
    RunScript,
    Schema,
    IndexingPreview,
    Server,
    Caller,
    Pulse,
    Log,
    Diagnostics,
    ReadCopies,
    PauseCopy,
    ResumeCopy,
    RebuildCopy,
    VerifyCopy,
    PutCopySettings,
    ReadFunctions,
    PutFunction,
    DeleteFunction,
    PauseFunction,
    ResumeFunction,
    TryFunction,
    ReplayFunction,
    RollbackFunction,
    ReadProjections,
    PutProjection,
    DeleteProjection,
    PauseProjection,
    ResumeProjection,
    BeginBackup,
    ReadBackup,
    EndBackup,
    ReadKeys,
    RotateKey,
    ReadAnalytics,
    SetAnalytics,
    OrderAnalytics,
    RunSql,
    ListSqlQueries,
    CancelSqlQuery,
}

impl Address<'_> {
    /// The operation that a method asks for here, defined or not.
    pub fn operation(&self, method: &Method) -> AdminOperation {
        match &self.target {
            Target::AllContainers => AdminOperation::Partitions,
            Target::Server => AdminOperation::Server,
            Target::Caller => AdminOperation::Caller,
            Target::Pulse => AdminOperation::Pulse,
            Target::Log => AdminOperation::Log,
            Target::Diagnostics => AdminOperation::Diagnostics,
            Target::Projections(target) => of_projections(target, method),
            Target::Copies(target) => of_copies(target, method),
            Target::Backups(target) => of_backups(target, method),
            Target::Keys(KeyTarget::All) => AdminOperation::ReadKeys,
            Target::Keys(KeyTarget::Rotate(_)) => AdminOperation::RotateKey,
            Target::Analytics => AdminOperation::ReadAnalytics,
            Target::Sql(SqlTarget::Statement) => AdminOperation::RunSql,
            Target::Sql(SqlTarget::Queries) => AdminOperation::ListSqlQueries,
            Target::Sql(SqlTarget::Query(_)) => AdminOperation::CancelSqlQuery,
            Target::InContainer { what: Action::Analytics(AnalyticsAction::Settings), .. }
                if method == Method::PUT =>
            {
                AdminOperation::SetAnalytics
            }
            Target::InContainer { what, .. } => of_action(*what),
        }
    }
}

fn of_projections(target: &ProjectionTarget, method: &Method) -> AdminOperation {
    match target {
        ProjectionTarget::All => AdminOperation::ReadProjections,
        ProjectionTarget::One(_) if method == Method::PUT => AdminOperation::PutProjection,
        ProjectionTarget::One(_) if method == Method::DELETE => AdminOperation::DeleteProjection,
        ProjectionTarget::One(_) => AdminOperation::ReadProjections,
        ProjectionTarget::Pause(_) => AdminOperation::PauseProjection,
        ProjectionTarget::Resume(_) => AdminOperation::ResumeProjection,
    }
}

fn of_copies(target: &CopyTarget, method: &Method) -> AdminOperation {
    match target {
        CopyTarget::Index { action: CopyAction::Show, .. } if method == Method::PATCH => {
            AdminOperation::PutCopySettings
        }
        CopyTarget::All | CopyTarget::Index { action: CopyAction::Show | CopyAction::Duplicates, .. } => {
            AdminOperation::ReadCopies
        }
        CopyTarget::Index { action: CopyAction::Pause, .. } => AdminOperation::PauseCopy,
        CopyTarget::Index { action: CopyAction::Resume, .. } => AdminOperation::ResumeCopy,
        CopyTarget::Index { action: CopyAction::Rebuild, .. } => AdminOperation::RebuildCopy,
        CopyTarget::Index { action: CopyAction::Verify, .. } if method == Method::GET => {
            AdminOperation::ReadCopies
        }
        CopyTarget::Index { action: CopyAction::Verify, .. } => AdminOperation::VerifyCopy,
        CopyTarget::Function { action, .. } => of_function(*action, method),
    }
}

fn of_function(action: FunctionAction, method: &Method) -> AdminOperation {
    match action {
        FunctionAction::One if method == Method::PUT => AdminOperation::PutFunction,
        FunctionAction::One if method == Method::DELETE => AdminOperation::DeleteFunction,
        FunctionAction::One | FunctionAction::Log | FunctionAction::Versions => AdminOperation::ReadFunctions,
        FunctionAction::Pause => AdminOperation::PauseFunction,
        FunctionAction::Resume => AdminOperation::ResumeFunction,
        FunctionAction::Try => AdminOperation::TryFunction,
        FunctionAction::Replay => AdminOperation::ReplayFunction,
        FunctionAction::Rollback => AdminOperation::RollbackFunction,
    }
}

fn of_backups(target: &BackupTarget, method: &Method) -> AdminOperation {
    match target {
        BackupTarget::All => AdminOperation::BeginBackup,
        BackupTarget::One(_) if method == Method::DELETE => AdminOperation::EndBackup,
        BackupTarget::One(_) | BackupTarget::Piece { .. } => AdminOperation::ReadBackup,
    }
}

fn of_action(action: Action) -> AdminOperation {
    match action {
        Action::Partitions => AdminOperation::Partitions,
        Action::Split { .. } => AdminOperation::Split,
        Action::Merge => AdminOperation::Merge,
        Action::Move { .. } => AdminOperation::Move,
        Action::AbortRelocation => AdminOperation::AbortRelocation,
        Action::Throughput => AdminOperation::Throughput,
        Action::Heat => AdminOperation::Heat,
        Action::Key => AdminOperation::Key,
        Action::Query => AdminOperation::Query,
        Action::RunScript => AdminOperation::RunScript,
        Action::Schema => AdminOperation::Schema,
        Action::PreviewPolicy => AdminOperation::IndexingPreview,
        Action::Analytics(AnalyticsAction::Settings) => AdminOperation::ReadAnalytics,
        Action::Analytics(_) => AdminOperation::OrderAnalytics,
    }
}
