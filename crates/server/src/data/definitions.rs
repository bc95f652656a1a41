//! Databases, containers, their definitions and their throughput.

use std::fmt;

use http::Method;
use serde_json::{Value, json};

use super::client::{Address, DataClient, Request};
use super::failure::Failure;

/// Names that are read for lists and completion.
const NAMES_MAX: usize = 10_000;

/// A container by its names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub database: String,
    pub container: String,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.database, self.container)
    }
}

/// A container's definition as the server returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition(pub Value);

impl Definition {
    pub fn partition_key_paths(&self) -> Vec<String> {
        let paths = self.0["partitionKey"]["paths"].as_array().into_iter().flatten();
        paths.filter_map(|path| path.as_str().map(str::to_owned)).collect()
    }

    pub fn rid(&self) -> &str {
        self.0["_rid"].as_str().unwrap_or_default()
    }
}

/// The throughput of a container or a database as a resource of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer(Value);

impl Offer {
    /// Request units per second, at most.
    pub fn ru_per_second(&self) -> u64 {
        let content = &self.0["content"];
        let most = &content["offerAutopilotSettings"]["maxThroughput"];
        most.as_u64().or(content["offerThroughput"].as_u64()).unwrap_or_default()
    }

    /// The same offer with another throughput, manual or autoscale as it is.
    #[must_use]
    pub fn with_ru_per_second(&self, units: u64) -> Offer {
        let mut offer = self.0.clone();
        match offer["content"]["offerAutopilotSettings"].is_object() {
            true => offer["content"]["offerAutopilotSettings"]["maxThroughput"] = json!(units),
            false => offer["content"]["offerThroughput"] = json!(units),
        }
        Offer(offer)
    }
}

impl DataClient {
    pub async fn databases(&self) -> Result<Vec<String>, Failure> {
        self.names(Address::databases(), "Databases").await
    }

    pub async fn containers(&self, database: &str) -> Result<Vec<String>, Failure> {
        self.names(Address::containers(database), "DocumentCollections").await
    }

    /// Every container as `database/container`.
    pub async fn places(&self) -> Result<Vec<Place>, Failure> {
        let mut places = Vec::new();
        for database in self.databases().await? {
            // It may have been deleted since.
            let Ok(containers) = self.containers(&database).await else { continue };
            let of = |container| Place { database: database.clone(), container };
            places.extend(containers.into_iter().map(of));
            if places.len() >= NAMES_MAX {
                break;
            }
        }
        Ok(places)
    }

    async fn names(&self, address: Address, member: &str) -> Result<Vec<String>, Failure> {
        let (mut names, mut continuation) = (Vec::new(), None);
        loop {
            let mut request = Request::get(address.clone());
            if let Some(token) = continuation {
                request = request.header("x-ms-continuation", token);
            }
            let answer = self.send(&request).await?;
            let page = json_of(answer.body())?;
            let found = page[member].as_array().into_iter().flatten();
            names.extend(found.filter_map(|entry| entry["id"].as_str().map(str::to_owned)));
            let token = answer.headers().get("x-ms-continuation").and_then(|token| token.to_str().ok());
            continuation = token.map(str::to_owned);
            if continuation.is_none() || names.len() >= NAMES_MAX {
                names.sort();
                return Ok(names);
            }
        }
    }

    pub async fn definition(&self, place: &Place) -> Result<Definition, Failure> {
        let address = Address::container(&place.database, &place.container);
        let answer = self.send(&Request::get(address)).await?;
        Ok(Definition(json_of(answer.body())?))
    }

    /// The definition, or an error that lists the containers.
    pub async fn existing(&self, place: &Place) -> Result<Definition, String> {
        match self.definition(place).await {
            Err(failure) if failure.is_not_found() => {
                Err(format!("there is no container '{place}': {}", self.known_places().await))
            }
            outcome => Ok(outcome?),
        }
    }

    /// The containers in words, for errors.
    pub async fn known_places(&self) -> String {
        const SHOWN: usize = 20;
        match self.places().await {
            Err(failure) => failure.to_string(),
            Ok(places) if places.is_empty() => "the account has no containers".to_owned(),
            Ok(places) => {
                let shown: Vec<String> = places.iter().take(SHOWN).map(Place::to_string).collect();
                let more = if places.len() > SHOWN { ", …" } else { "" };
                format!("the account has {}{more}", shown.join(", "))
            }
        }
    }

    /// Partitions, items, sizes and throughput, as the operator's interface reports them.
    pub async fn report(&self, place: &Place) -> Result<Value, Failure> {
        let address = Address::operator(&place.database, &place.container, "partitions");
        json_of(self.send(&Request::get(address)).await?.body())
    }

    /// Whether the database had to be created.
    pub async fn create_database(&self, id: &str) -> Result<bool, Failure> {
        self.create(Request::post(Address::databases(), json!({ "id": id }).to_string())).await
    }

    /// Whether the container had to be created, then with a throughput of its own where one is given.
    pub async fn create_container(
        &self,
        place: &Place,
        paths: &[String],
        throughput: Option<u64>,
    ) -> Result<bool, Failure> {
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let key = json!({ "paths": paths, "kind": kind, "version": 2 });
        let definition = json!({ "id": place.container, "partitionKey": key });
        let request = Request::post(Address::containers(&place.database), definition.to_string());
        self.create(match throughput {
            Some(units) => request.header("x-ms-offer-throughput", units.to_string()),
            None => request,
        })
        .await
    }

    async fn create(&self, request: Request) -> Result<bool, Failure> {
        match self.send(&request).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_conflict() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The offer of a container; `None` where the database has the throughput.
    pub async fn offer(&self, definition: &Definition) -> Result<Option<Offer>, Failure> {
        let answer = self.send(&Request::get(Address::offers())).await?;
        let page = json_of(answer.body())?;
        let offers = page["Offers"].as_array().into_iter().flatten();
        let mut offers = offers.filter(|offer| offer["offerResourceId"] == definition.rid());
        Ok(offers.next().map(|offer| Offer(offer.clone())))
    }

    /// The lowest throughput that the server allows.
    pub async fn minimum_of(&self, offer: &Offer) -> Result<Option<u64>, Failure> {
        let rid = offer.0["_rid"].as_str().unwrap_or_default();
        let answer = self.send(&Request::get(Address::offer(rid))).await?;
        let minimum = answer.headers().get("x-ms-cosmos-min-throughput");
        Ok(minimum.and_then(|units| units.to_str().ok()?.parse().ok()))
    }

    pub async fn set_offer(&self, offer: &Offer) -> Result<(), Failure> {
        let rid = offer.0["_rid"].as_str().unwrap_or_default();
        let mut request = Request::post(Address::offer(rid), offer.0.to_string());
        request.method = Method::PUT;
        self.send(&request).await.map(drop)
    }
}

fn json_of(body: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::of_connection(format!("the answer is no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_keep_their_kind() {
        let manual = Offer(json!({ "content": { "offerThroughput": 400 } }));
        assert_eq!((manual.ru_per_second(), manual.with_ru_per_second(900).ru_per_second()), (400, 900));
        let content = json!({ "offerThroughput": 100, "offerAutopilotSettings": { "maxThroughput": 1000 } });
        let scaled = Offer(json!({ "content": content }));
        assert_eq!((scaled.ru_per_second(), scaled.with_ru_per_second(4000).ru_per_second()), (1000, 4000));
        assert_eq!(scaled.with_ru_per_second(4000).0["content"]["offerThroughput"], 100);
    }

    #[test]
    fn definitions_name_their_keys() {
        let definition = Definition(json!({ "partitionKey": { "paths": ["/a", "/b"] }, "_rid": "x" }));
        assert_eq!(definition.partition_key_paths(), ["/a", "/b"]);
        assert_eq!(definition.rid(), "x");
    }
}
