//! Pages of a query, which the server runs over all partitions, or over one logical partition.

use std::str::FromStr;

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
    pub parameters: Vec<Parameter>,
    pub continuation: Option<String>,
}

/// A parameter of a query. Its value stays the text that it was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    name: String,
    value: String,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write @NAME=JSON, such as '@customer=\"ada\"'")?;
        let name = format!("@{}", name.trim_start_matches('@'));
        match serde_json::from_str::<&RawValue>(value) {
            Ok(value) => Ok(Parameter { name, value: value.get().to_owned() }),
            Err(_) => Err(format!("{value} is no JSON value: write '{name}=\"text\"' for a string")),
        }
    }
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
        Query { place, text, partition_key, parameters: Vec::new(), continuation: None }
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
        for (place, Parameter { name, value }) in self.parameters.iter().enumerate() {
            let before = if place == 0 { ",\"parameters\":[" } else { "," };
            body.push_str(&format!("{before}{{\"name\":{},\"value\":{value}}}", json!(name)));
        }
        if !self.parameters.is_empty() {
            body.push(']');
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_keep_the_digits_of_keys_and_parameters() {
        let place = Place { database: "d".into(), container: "c".into() };
        let mut query = Query::new(place, "SELECT @a".into(), Some("[12345678901234567890]".into()));
        query.parameters = ["@a=1.0", "b=\"x=y\""].map(|text| text.parse().expect("a parameter")).to_vec();
        query.continuation = Some("t".into());
        assert_eq!(
            std::str::from_utf8(&query.request(7).body),
            Ok(
                r#"{"query":"SELECT @a","maxItems":7,"continuation":"t","parameters":[{"name":"@a","value":1.0},{"name":"@b","value":"x=y"}],"scope":{"partitionKey":[12345678901234567890]}}"#
            )
        );
        assert!("@a".parse::<Parameter>().is_err());
        assert!("@a=ada".parse::<Parameter>().is_err_and(|message| message.contains("'@a=\"text\"'")));
    }
}
