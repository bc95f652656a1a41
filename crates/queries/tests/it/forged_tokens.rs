//! Forged continuation tokens: their checksum is no secret. A forged token is refused, or returns rows that
//! its sender's own request could return; it never returns other rows, and never ends a partition.
//!
//! Two ways to forge: a token of one request in the place of another's, and single bytes of a token
//! changed. Both keep the head that the server compares (container, query and range) and the
//! checksum right. `SHARDLAKE_FORGED_TOKENS` sets the number of forged tokens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, SplitAt};
use shardlake_model::{ContainerDefinition, ErrorKind, KeyComponent, PartitionKey, PartitionKeyDefinition};
use shardlake_stdx::Random;

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::number_from_environment;
use crate::support::{Fixture, none};

const ITEMS: u64 = 90;
const FORGED: u64 = 1500;
/// Version, container and query.
const HEAD: usize = 13;

struct Target {
    text: &'static str,
    scope: FeedScope,
    /// The rows that it may show; `None` where rows are computed from the token's own state.
    rows: Option<BTreeSet<Vec<u8>>>,
    tokens: Vec<Vec<u8>>,
}

fn range(range_id: Option<u32>, window: Option<(&str, &str)>) -> FeedScope {
    FeedScope::Range { range_id, epk: window.map(|(min, max)| (min.to_owned(), max.to_owned())) }
}

/// A query, its scope, and the query of everything that it may show.
fn requests() -> Vec<(&'static str, FeedScope, Option<&'static str>)> {
    let key = || FeedScope::Key(PartitionKey(vec![KeyComponent::String("k3".into())]));
    let mut requests = Vec::new();
    for scope in [
        FeedScope::All,
        key(),
        range(Some(1), None),
        range(Some(2), Some(("20", "38"))),
        range(None, Some(("08", "30"))),
    ] {
        for (text, shows) in [
            ("SELECT c.id FROM c", None),
            ("SELECT c.id FROM c WHERE c.n >= 20 AND c.n < 60", None),
            ("SELECT c.id FROM c WHERE c.n < 10 OR c.n > 70", None),
            ("SELECT c.id FROM c WHERE c.s > 'long'", None),
            ("SELECT c.id FROM c WHERE c.n > 30 ORDER BY c.n", None),
            ("SELECT c.id FROM c WHERE c.n < 50 ORDER BY c.n DESC", None),
            ("SELECT c.id FROM c WHERE c.s > 'long' ORDER BY c.s", None),
            ("SELECT TOP 9 c.id FROM c WHERE c.n >= 20", Some("SELECT c.id FROM c WHERE c.n >= 20")),
        ] {
            requests.push((text, scope.clone(), Some(shows.unwrap_or(text))));
        }
        for text in [
            "SELECT DISTINCT VALUE c.t FROM c",
            "SELECT c.t, COUNT(1) AS count FROM c GROUP BY c.t",
            "SELECT c.id FROM c OFFSET 5 LIMIT 20",
        ] {
            requests.push((text, scope.clone(), None));
        }
    }
    requests
}

async fn filled(fixture: &Fixture) -> ContainerHandle {
    let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    let container = fixture.container_with(definition, 400).await;
    for n in 0..ITEMS {
        let (pk, t, long) = (n % 23, n % 5, "x".repeat(400));
        let number = if n % 9 == 0 { String::new() } else { format!(r#""n":{n},"#) };
        let body = format!(r#"{{"id":"i{n}","pk":"k{pk}",{number}"t":{t},"s":"long{long}{}"}}"#, n % 11);
        let key = format!(r#"["k{pk}"]"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, Some(KeyInput(&key)), body.as_bytes(), &none())
            .await
            .expect("written");
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    fixture.account.router().container("db", "c").expect("there")
}

fn request<'a>(text: &'a str, scope: &FeedScope, token: Option<&'a str>, max_items: i64) -> QueryRequest<'a> {
    QueryRequest { scope: scope.clone(), ..crate::support::queries::request(text, max_items, token) }
}

/// All rows, and the tokens between their pages.
async fn drained(
    fixture: &Fixture,
    container: &ContainerHandle,
    (text, scope): (&str, &FeedScope),
    max_items: i64,
) -> (BTreeSet<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut rows, mut tokens, mut token) = (BTreeSet::new(), Vec::new(), None::<String>);
    loop {
        let asked = request(text, scope, token.as_deref(), max_items);
        let page = fixture.account.queries().query(&fixture.ctx(), container, asked).await.expect("a page");
        rows.extend(page.rows.iter().map(<[u8]>::to_vec));
        token = page.continuation;
        let Some(text) = &token else { return (rows, tokens) };
        tokens.push(URL_SAFE_NO_PAD.decode(text).expect("base64"));
    }
}

impl Target {
    async fn of(
        fixture: &Fixture,
        container: &ContainerHandle,
        (text, scope, shows): (&'static str, FeedScope, Option<&str>),
    ) -> Target {
        let mut rows = None;
        if let Some(shows) = shows {
            rows = Some(drained(fixture, container, (shows, &scope), 1000).await.0);
        }
        let tokens = drained(fixture, container, (text, &scope), 2).await.1;
        Target { text, scope, rows, tokens }
    }

    /// The head, which ends after the range, a number of seven bits a byte.
    fn head(&self) -> &[u8] {
        let token = &self.tokens[0];
        let range = token[HEAD..].iter().position(|byte| byte & 0x80 == 0).expect("a number ends");
        &token[..HEAD + range + 1]
    }

    async fn shows_nothing_else(&self, fixture: &Fixture, container: &ContainerHandle, forged: &str) {
        let mut token = Some(forged.to_owned());
        for _ in 0..4 {
            let Some(text) = token.take() else { return };
            let asked = request(self.text, &self.scope, Some(&text), 10);
            match fixture.account.queries().query(&fixture.ctx(), container, asked).await {
                Ok(page) => {
                    for row in page.rows.iter() {
                        let is_own = self.rows.as_ref().is_none_or(|rows| rows.contains(row));
                        let row = String::from_utf8_lossy(row);
                        assert!(is_own, "{} in {:?} shows {row} for {forged}", self.text, self.scope);
                    }
                    token = page.continuation;
                }
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::PartitionGone),
                    "{} for {forged}: {error:?}",
                    self.text
                ),
            }
        }
    }
}

fn sealed(mut content: Vec<u8>) -> String {
    content.extend_from_slice(&crc32fast::hash(&content).to_be_bytes());
    URL_SAFE_NO_PAD.encode(content)
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_query_token_shows_nothing_that_its_request_could_not() {
    let fixture = Fixture::new().await;
    let container = filled(&fixture).await;
    let mut targets = Vec::new();
    for request in requests() {
        let target = Target::of(&fixture, &container, request).await;
        if !target.tokens.is_empty() {
            targets.push(target);
        }
    }
    assert!(targets.len() > 30, "{}", targets.len());
    let count = number_from_environment("SHARDLAKE_FORGED_TOKENS").unwrap_or(FORGED);
    let random = Random::seeded(number_from_environment("SHARDLAKE_SEED").unwrap_or(7));
    let any = |count: usize| random.below(count as u64) as usize;
    for number in 0..count {
        let target = &targets[any(targets.len())];
        let donor = if number % 3 == 0 { &targets[any(targets.len())] } else { target };
        let token = &donor.tokens[any(donor.tokens.len())];
        let content = &token[..token.len() - 4];
        let mut forged = [target.head(), &content[donor.head().len()..]].concat();
        if number % 3 != 0 {
            for _ in 0..=any(2) {
                let at = target.head().len() + any(forged.len() - target.head().len());
                forged[at] = match any(3) {
                    0 => forged[at].wrapping_sub(1),
                    1 => forged[at].wrapping_add(1),
                    _ => any(256) as u8,
                };
            }
        }
        target.shows_nothing_else(&fixture, &container, &sealed(forged)).await;
    }
}
