//! An operator who splits, merges and moves partitions all the time, and at times goes away before
//! the answer.

use crate::hang_up::{HangUp, send_and_hang_up};
use crate::model::Place;
use crate::requests::{Wire, path_of};
use crate::tally::Tally;
use crate::weather::Weather;
use serde_json::json;
use shardlake_stdx::Random;
use shardlake_testkit::Client;
use std::io::Result;
use std::time::Duration;

/// Ranges of a container above which more is merged than split.
const RANGES_MAX: u64 = 5;

pub struct Operator<'o> {
    pub client: Client,
    pub random: Random,
    pub shards: u16,
    pub weather: Option<&'o Weather>,
    /// Some are containers that come and go.
    pub places: Vec<Place>,
    pub hangs_up: bool,
}

impl Operator<'_> {
    /// Until the connection breaks.
    pub fn move_until_killed(&self) -> Tally {
        let mut tally = Tally::default();
        while self.move_once(&mut tally).is_ok() {
            std::thread::sleep(Duration::from_millis(self.random.below(20)));
        }
        tally
    }

    fn move_once(&self, tally: &mut Tally) -> Result<()> {
        let at = match self.random.below(3) {
            0 => &self.places[self.random.below(self.places.len() as u64) as usize],
            _ => &self.places[0],
        };
        let ranges = self.client.try_request("GET", &format!("{}/pkranges", path_of(at)), &[], b"")?;
        if ranges.status != 200 {
            return Ok(());
        }
        let ranges = ranges.json();
        let ids: Vec<&str> = ranges["PartitionKeyRanges"]
            .as_array()
            .expect("a list of ranges")
            .iter()
            .map(|range| range["id"].as_str().expect("ranges have ids"))
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let wire = self.choose(at, &ids);
        if self.hangs_up && self.random.below(6) == 0 {
            tally.count("motions whose operator hung up");
            let how = HangUp::choose(&self.random);
            send_and_hang_up(&self.client, &wire, how, &self.random, self.weather)?;
            return Ok(());
        }
        let response = wire.send(&self.client)?;
        match response.status {
            202 => tally.count("splits, merges and moves begun"),
            // It is on that shard already; or the container is gone, or another motion or an index
            // is at work.
            400 | 404 | 409 | 410 | 429 => {}
            other => panic!("{wire:?} was answered with {other}: {response}"),
        }
        Ok(())
    }

    fn choose(&self, at: &Place, ids: &[&str]) -> Wire {
        let chosen = self.random.below(ids.len() as u64) as usize;
        let (action, body) = match self.random.below(3) {
            0 => {
                let shard = self.random.below(u64::from(self.shards));
                (format!("{}/move", ids[chosen]), json!({ "shard": shard }))
            }
            _ if ids.len() as u64 > RANGES_MAX || (chosen > 0 && self.random.below(3) == 0) => {
                let upper = chosen.max(1);
                ("merge".to_owned(), json!({ "ids": [ids[upper - 1], ids[upper]] }))
            }
            _ => (format!("{}/split", ids[chosen]), json!({ "at": "middle" })),
        };
        let path = format!("/_shardlake/v1{}/partitions/{action}", path_of(at));
        Wire { method: "POST", path, headers: Vec::new(), body: body.to_string() }
    }
}
