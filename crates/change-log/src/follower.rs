//! A place in the change log of a container, and reading on from there.

use shardlake_catalog::PlaceRecord;
use shardlake_host::ReadLog;
use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_partition::ChangePage;
use shardlake_router::{ContainerEntry, PartitionHandle, Serving};
use shardlake_routing::KeyRange;

use crate::written::written;

/// A part of the hash space that is read up to an LSN.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    span: KeyRange,
    after: u64,
}

/// Follower of one container. Holds no connection to it: the serving container is looked up for each page.
#[derive(Debug)]
pub struct Follower {
    container: ContainerRid,
    places: Vec<Place>,
    next: usize,
    /// Places in a row that were at their ends.
    at_end: usize,
}

/// Result of reading the next page.
#[derive(Debug)]
pub enum FollowerRead {
    /// Every place is read to its end.
    End,
    /// One place had no entries; others may have some.
    Nothing,
    Page(FollowerPage),
}

/// A page of the log. The follower advances past it once the page is marked as done.
#[derive(Debug)]
pub struct FollowerPage {
    /// Keys of the items written in it, each once, in the order of their last commits, with the LSNs of these.
    pub written: Vec<(Vec<u8>, u64)>,
    place: usize,
    last_lsn: u64,
}

/// A partition, and the LSN that it was read up to.
pub type Followed = (PartitionHandle, u64);

impl Follower {
    /// Begins at the position of a checkpoint.
    pub fn new(container: ContainerRid, checkpoint: &[PlaceRecord]) -> Result<Follower> {
        let place = |record: &PlaceRecord| Ok(Place { span: span_of(record)?, after: record.after });
        let places = checkpoint.iter().map(place).collect::<Result<_>>()?;
        Ok(Follower { container, places, next: 0, at_end: 0 })
    }

    /// The checkpoint of a follower that begins with the first change that the log still has.
    pub fn from_the_beginning() -> Vec<PlaceRecord> {
        vec![PlaceRecord::new(&KeyRange::full(), 0)]
    }

    /// The checkpoint of a follower that begins with the next change.
    pub fn from_now(container: &ContainerEntry) -> Vec<PlaceRecord> {
        let partitions = container.map.iter();
        partitions.map(|partition| PlaceRecord::new(partition.epk_range(), partition.durable_lsn())).collect()
    }

    /// How far everything is done.
    pub fn checkpoint(&self) -> Vec<PlaceRecord> {
        self.places.iter().map(|place| PlaceRecord::new(&place.span, place.after)).collect()
    }

    /// Reads the next page. A place with more is read again after all others had their turn.
    pub async fn read(&mut self, serving: &Serving, entries_max: usize) -> Result<FollowerRead> {
        if self.at_end >= self.places.len() {
            return Ok(FollowerRead::End);
        }
        self.next %= self.places.len();
        let place = &self.places[self.next];
        let page = match page_of(serving, self.container, place, entries_max).await? {
            PlaceRead::Page(page) => page,
            PlaceRead::Divided(parts) => {
                self.places.splice(self.next..=self.next, parts);
                return Ok(FollowerRead::Nothing);
            }
        };
        let written = written(&page);
        self.at_end = if written.is_empty() && page.is_last { self.at_end + 1 } else { 0 };
        let (number, is_further) = (self.next, page.last_lsn > place.after);
        self.next += 1;
        Ok(match is_further {
            true => FollowerRead::Page(FollowerPage { written, place: number, last_lsn: page.last_lsn }),
            false => FollowerRead::Nothing,
        })
    }

    /// Everything that a page led to is done. Nothing else was read meanwhile.
    pub fn done(&mut self, page: &FollowerPage) {
        assert!(page.last_lsn >= self.places[page.place].after, "a follower never goes back");
        self.places[page.place].after = page.last_lsn;
    }

    /// Looks at every place again, since there may be new entries, and joins places that are level.
    pub fn look_again(&mut self, serving: &Serving) {
        self.at_end = 0;
        if let Ok(entry) = serving.entry_of_rid(self.container) {
            join(&entry, &mut self.places);
        }
    }

    /// The partitions with their LSNs, to wait for the next commit with [`Partition::wait_for_change`].
    pub fn followed(&self, serving: &Serving) -> Vec<Followed> {
        let Ok(entry) = serving.entry_of_rid(self.container) else { return Vec::new() };
        let of_place = |place: &Place| {
            let after = place.after;
            let partitions = entry.map.overlapping(&place.span);
            partitions.map(|partition| (partition.clone(), after)).collect::<Vec<_>>()
        };
        self.places.iter().flat_map(of_place).collect()
    }
}

/// Waits until one of `followed`, which must not be empty, has a durable commit after its LSN.
pub async fn changed(followed: &[Followed]) {
    let waits = followed.iter().map(|(partition, after)| Box::pin(partition.wait_for_change(*after)));
    futures::future::select_all(waits).await;
}

/// Result of reading a place.
enum PlaceRead {
    /// It spans several ranges, and these are its parts.
    Divided(Vec<Place>),
    Page(ChangePage),
}

fn span_of(record: &PlaceRecord) -> Result<KeyRange> {
    record
        .span()
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a stored place is malformed: {error}")))
}

async fn page_of(
    serving: &Serving,
    container: ContainerRid,
    place: &Place,
    entries_max: usize,
) -> Result<PlaceRead> {
    let entry = serving.entry_of_rid(container)?;
    let parts = parts(&entry, &place.span);
    let read = ReadLog { span: place.span.clone(), after: place.after, entries_max };
    match parts.as_slice() {
        [(partition, _)] => match partition.send(&serving.own_context(), &read).await {
            // Split, merged or moved just now: the next look sees the ranges that replaced it.
            Err(error) if error.kind() == ErrorKind::PartitionGone => {
                let mut routing = serving.routing_of(entry.clone());
                routing.has_moved(&Err::<(), _>(error)).await?;
                Ok(PlaceRead::Divided(vec![place.clone()]))
            }
            page => Ok(PlaceRead::Page(page?)),
        },
        [] => Err(Error::internal("a part of the hash space that no range has")),
        parts => {
            let part =
                |(_, span): &(PartitionHandle, KeyRange)| Place { span: span.clone(), after: place.after };
            Ok(PlaceRead::Divided(parts.iter().map(part).collect()))
        }
    }
}

pub(crate) fn parts(entry: &ContainerEntry, span: &KeyRange) -> Vec<(PartitionHandle, KeyRange)> {
    let partitions = entry.map.overlapping(span);
    partitions.map(|partition| (partition.clone(), partition.epk_range().intersection(span))).collect()
}

/// Joins neighbours in one range that are level.
fn join(entry: &ContainerEntry, places: &mut Vec<Place>) {
    places.sort_by(|a, b| a.span.min.cmp(&b.span.min));
    let mut joined: Vec<Place> = Vec::with_capacity(places.len());
    for place in places.drain(..) {
        let previous = joined.last_mut().filter(|previous| {
            let is_next = previous.after == place.after && previous.span.max == place.span.min;
            let is_in_one = |partition: &PartitionHandle| {
                partition.epk_range().contains_range(&previous.span)
                    && partition.epk_range().contains_range(&place.span)
            };
            is_next && entry.map.iter().any(is_in_one)
        });
        match previous {
            Some(previous) => previous.span.max = place.span.max,
            None => joined.push(place),
        }
    }
    *places = joined;
}
