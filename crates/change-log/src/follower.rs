//! Follower of a container's log through splits, merges and moves.

use shardlake_model::{ContainerRid, Error, ErrorKind};
use shardlake_partition::{LogChange, Round, RoundError, RoundPage};
use shardlake_router::{PartitionHandle, Serving};
use shardlake_routing::KeyRange;

use crate::position::{LogPosition, parts};

/// Changes that a follower needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Every change since its position: a hole in the log is an error.
    EveryChange,
    /// The last version of every item that exists. Compaction keeps these.
    LastVersions,
}

/// Follower of one container. Holds no connection to it: the serving container is looked up for each round.
#[derive(Debug)]
pub struct LogFollower {
    container: ContainerRid,
    needs: Needs,
    position: LogPosition,
    next: usize,
    /// Parts in a row that were at their ends.
    at_end: usize,
}

/// Result of looking for the next round.
#[derive(Debug)]
pub enum NextRound {
    /// Every part is read to its end.
    End,
    /// One part has nothing new, or was divided. Others may have something.
    Nothing,
    Round(Box<PartRound>),
}

/// A round of one part. The follower advances once it is marked as done.
#[derive(Debug)]
pub struct PartRound {
    pub span: KeyRange,
    pub round: Round,
}

/// Result of reading the next page.
#[derive(Debug)]
pub enum NextPage {
    /// Every part is read to its end.
    End,
    /// One part had no entries. Others may have some.
    Nothing,
    Page(FollowerPage),
}

/// Changes of one part that end with a commit. The follower advances past them once they are marked as done.
#[derive(Debug)]
pub struct FollowerPage {
    pub changes: Vec<LogChange>,
    pub span: KeyRange,
    pub upto: u64,
}

/// A partition, and the LSN that it was read up to.
pub type Followed = (PartitionHandle, u64);

impl LogFollower {
    pub fn open(container: ContainerRid, position: LogPosition, needs: Needs) -> LogFollower {
        LogFollower { container, needs, position, next: 0, at_end: 0 }
    }

    /// How far everything is done.
    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// Begins a round of the next part. A part with more is read again after all others had a round.
    pub async fn next_round(&mut self, serving: &Serving) -> Result<NextRound, RoundError> {
        let count = self.position.parts.len();
        if self.at_end >= count {
            return Ok(NextRound::End);
        }
        self.next %= count;
        let part = &self.position.parts[self.next];
        let entry = serving.entry_of_rid(self.container)?;
        let divided = parts(&entry, &part.span);
        let [(partition, _)] = divided.as_slice() else {
            if divided.is_empty() {
                return Err(Error::internal("a part of the hash space that no range has").into());
            }
            self.position.divide(self.next, divided.into_iter().map(|(_, span)| span).collect());
            return Ok(NextRound::Nothing);
        };
        let partition = partition.hosted().partition();
        let round = match self.needs {
            Needs::EveryChange => partition.log_round(&part.span, part.after).await,
            Needs::LastVersions => partition.log_round_over_holes(&part.span, part.after).await,
        };
        let round = match round {
            // Split, merged or moved just now: the next look sees the ranges that replaced it.
            Err(RoundError::Failed(error)) if error.kind() == ErrorKind::PartitionGone => {
                serving.routing_of(entry.clone()).has_moved(&Err::<(), _>(error)).await?;
                return Ok(NextRound::Nothing);
            }
            round => round?,
        };
        let is_new = round.upto() > part.after;
        self.at_end = if is_new { 0 } else { self.at_end + 1 };
        let span = part.span.clone();
        self.next += 1;
        Ok(if is_new { NextRound::Round(Box::new(PartRound { span, round })) } else { NextRound::Nothing })
    }

    /// Begins rounds of so many parts at most, each part once. An empty list where these are at their ends, or were divided; `None`
    /// where every part is read to its end.
    pub async fn next_rounds(
        &mut self,
        serving: &Serving,
        most: usize,
    ) -> Result<Option<Vec<PartRound>>, RoundError> {
        let mut rounds = Vec::new();
        for _ in 0..self.position.parts.len().min(most) {
            match self.next_round(serving).await? {
                NextRound::Round(round) => rounds.push(*round),
                NextRound::Nothing => {}
                NextRound::End => return Ok(None),
            }
        }
        Ok(Some(rounds))
    }

    /// Reads changes of about so many operations from a round of their own, for followers whose work takes
    /// longer than a view of the engine should be kept. Commits without changes in the part are passed over.
    pub async fn next_page(
        &mut self,
        serving: &Serving,
        operations_max: usize,
    ) -> Result<NextPage, RoundError> {
        let PartRound { span, round } = match self.next_round(serving).await? {
            NextRound::End => return Ok(NextPage::End),
            NextRound::Nothing => return Ok(NextPage::Nothing),
            NextRound::Round(round) => *round,
        };
        let (mut round, mut upto) = (round.in_pages_of(operations_max), 0);
        loop {
            match round.next_page().await {
                Ok(Some(RoundPage { changes, .. })) if changes.is_empty() => {}
                Ok(Some(page)) => {
                    upto = upto.max(page.upto);
                    return Ok(NextPage::Page(FollowerPage { changes: page.changes, span, upto }));
                }
                Ok(None) => {
                    let (changes, upto) = (Vec::new(), round.upto());
                    return Ok(NextPage::Page(FollowerPage { changes, span, upto }));
                }
                // Its part goes on in the partitions that replaced it.
                Err(error) if error.kind() == ErrorKind::PartitionGone => return Ok(NextPage::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Everything up to an LSN of a span's round or page is done, and durable where the position is stored. Call it before the
    /// next round.
    pub fn done(&mut self, span: &KeyRange, upto: u64) {
        self.position.advance(span, upto);
    }

    /// Looks at every part again, since there may be new entries, and joins parts that are level.
    pub fn look_again(&mut self, serving: &Serving) {
        self.at_end = 0;
        if let Ok(entry) = serving.entry_of_rid(self.container) {
            self.position.join(&entry);
        }
    }

    /// The partitions with the LSNs that they were read up to, for [`changed`].
    pub fn followed(&self, serving: &Serving) -> Vec<Followed> {
        let Ok(entry) = serving.entry_of_rid(self.container) else { return Vec::new() };
        let of_part = |part: &crate::LogPart| {
            let after = part.after;
            let partitions = entry.map.overlapping(&part.span);
            partitions.map(|partition| (partition.clone(), after)).collect::<Vec<_>>()
        };
        self.position.parts.iter().flat_map(of_part).collect()
    }

    /// Waits for a commit that was not read yet, or the end of a partition. Returns at once where the container
    /// has ended.
    pub async fn wait(&self, serving: &Serving) {
        let followed = self.followed(serving);
        if !followed.is_empty() {
            changed(&followed).await;
        }
    }
}

/// Waits until one of `followed`, which must not be empty, has a durable commit after its LSN.
pub async fn changed(followed: &[Followed]) {
    let waits = followed.iter().map(|(partition, after)| Box::pin(partition.wait_for_change(*after)));
    futures::future::select_all(waits).await;
}
