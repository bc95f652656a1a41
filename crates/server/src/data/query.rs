//! Pages of a query, which the server runs over all partitions, or over one logical partition.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::client::{Address, DataClient, Request};
use super::definitions::Place;
use super::failure::Failure;

/// A query and how far it has been read.
#[derive(Debug, Clone)]
pub struct Query {
    pub place: Place,
    pub text: String,
    /// JSON, such as `["a"]`.
    pub partition_key: Option<String>,
    pub continuation: Option<String>,
}

/// One page of an answer.
#[derive(Debug, Deserialize)]
pub struct Page {
    /// Request units.
    pub charge: f64,
    pub continuation: Option<String>,
    #[serde(rename = "elapsedMs")]
    pub elapsed_ms: f64,
    /// Partitions that were asked.
    pub ranges: Vec<Range>,
    pub rows: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub struct Range {
    pub id: String,
}

impl Query {
    pub fn new(place: Place, text: String, partition_key: Option<String>) -> Query {
        Query { place, text, partition_key, continuation: None }
    }

    /// The next page of at most `rows` rows. The query then continues behind it.
    pub async fn next(&mut self, client: &DataClient, rows: u64) -> Result<Page, Failure> {
        let answer = client.send(&self.request(rows)).await?;
        let page: Page = serde_json::from_slice(answer.body())
            .map_err(|error| Failure::of_connection(format!("the answer is no page of a query: {error}")))?;
        self.continuation.clone_from(&page.continuation);
        Ok(page)
    }

    fn request(&self, rows: u64) -> Request {
        let mut body = json!({ "query": self.text, "maxItems": rows }).to_string();
        body.pop();
        if let Some(token) = &self.continuation {
            body.push_str(&format!(",\"continuation\":{}", json!(token)));
        }
        // The key stays text: its numbers may have more digits than a double.
        if let Some(key) = &self.partition_key {
            body.push_str(&format!(",\"scope\":{{\"partitionKey\":{key}}}"));
        }
        body.push('}');
        let Place { database, container } = &self.place;
        Request::post(Address::operator(database, container, "query"), body)
    }
}
