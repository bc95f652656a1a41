//! Parsed queries by their text: applications send the same few texts over and over.

use quick_cache::sync::Cache;
use shardlake_sql::{Query, SqlError, parse_query};

const QUERIES_MAX: usize = 1024;
/// Longer texts are parsed every time: they seldom repeat, and the cache stays below 8 MB of text.
const TEXT_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug)]
pub(crate) struct QueryCache(Cache<String, Query>);

impl Default for QueryCache {
    fn default() -> Self {
        QueryCache(Cache::new(QUERIES_MAX))
    }
}

impl QueryCache {
    pub fn parsed(&self, text: &str) -> Result<Query, SqlError> {
        if let Some(query) = self.0.get(text) {
            return Ok(query);
        }
        let query = parse_query(text)?;
        if text.len() <= TEXT_BYTES_MAX {
            self.0.insert(text.to_owned(), query.clone());
        }
        Ok(query)
    }
}
