//! (in progress)
use shardlake_document::RawDocument;
#[derive(Debug, Clone, thiserror::Error)]
pub enum SqlError { #[error("{feature} is not supported")] Unsupported { feature: String }, #[error("{0}")] Other(String) }
#[derive(Debug, Clone)]
pub struct Condition;
impl Condition { pub fn matches(&self, _: RawDocument<'_>) -> Result<bool, SqlError> { Err(SqlError::Unsupported { feature: "patch conditions".into() }) } }
pub fn parse_condition(_: &str) -> Result<Condition, SqlError> { Err(SqlError::Unsupported { feature: "patch conditions".into() }) }
