//! Groups of a global secondary index: contributions of items, for the commits of the source and for the
//! follower that keeps the groups.
//!
//! Both use the same compiled form, so a commit records as ended exactly the contributions that the follower
//! had counted: those that no row can have, such as those with a key that is too long, are left out of both.

use shardlake_document::{ItemView, parse_partition_key, partition_key_text};
use shardlake_model::{Error, ErrorKind, PartitionKey, Result};
use shardlake_partition::{EndedRow, EndedVersion, LogicalKey, extract_partition_key};
use shardlake_sql::{Argument, Contribution, Derivation};

use crate::index_rows::IndexRows;

/// Record of a version without contributions, before one with some.
pub const NO_CONTRIBUTIONS: &[u8] = b"";

/// A contribution with the place of its group's row in the index.
#[derive(Debug, Clone)]
pub struct KeyedContribution {
    pub key: LogicalKey,
    pub contribution: Contribution,
}

/// The contributions of one version of an item.
#[derive(Debug, Default)]
pub struct ContributionsOfItem {
    pub contributions: Vec<KeyedContribution>,
    /// Why some, or all of them, cannot be counted.
    pub refused: Vec<String>,
}

/// A contribution that ended, as the log of the source has it.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedContribution {
    /// Place among the contributions of its item.
    pub number: u16,
    /// Id and partition key of the group's row.
    pub id: String,
    pub key: PartitionKey,
    pub arguments: Vec<Argument>,
}

impl IndexRows {
    /// Whether its rows are of groups, which [`IndexRows::contributions_of`] is for, and not of items.
    pub fn is_grouped(&self) -> bool {
        self.derivation.is_grouped()
    }

    pub fn derivation(&self) -> &Derivation {
        &self.derivation
    }

    /// The contributions of a version of an item of the source.
    pub fn contributions_of(&self, item: &ItemView<'_>, key: &PartitionKey) -> ContributionsOfItem {
        let derived = match self.derivation.contributions(item, key) {
            Ok(derived) => derived,
            Err(error) => {
                return ContributionsOfItem { contributions: Vec::new(), refused: vec![error.to_string()] };
            }
        };
        let mut found = ContributionsOfItem::default();
        for contribution in derived {
            match self.place_of(&contribution) {
                Ok(key) => found.contributions.push(KeyedContribution { key, contribution }),
                Err(reason) => found.refused.push(reason),
            }
        }
        found
    }

    /// The logical partition of the index that a group's row lies in.
    fn place_of(&self, contribution: &Contribution) -> std::result::Result<LogicalKey, String> {
        let outputs = self.derivation.group_outputs(&contribution.id, &contribution.keys);
        let outputs = outputs.map_err(|error| error.to_string())?;
        let key = extract_partition_key(outputs.raw(), &self.key_paths);
        self.check_key(&key)?;
        Ok(self.logical(key))
    }

    /// Contributions that a version had and its successor has not: all of them, or none where the successor
    /// has the same. A version without any before one with some has a record of its own, [`NO_CONTRIBUTIONS`].
    pub(crate) fn ended_contributions(&self, ended: &EndedVersion<'_>) -> Vec<EndedRow> {
        let key = &ended.logical.partition_key;
        let recorded = |item: &ItemView<'_>| -> Vec<Vec<u8>> {
            let contributions = self.contributions_of(item, key).contributions;
            contributions.iter().enumerate().map(|(number, one)| encode(number, one)).collect()
        };
        let old = recorded(&ended.old);
        if ended.new.is_some_and(|new| recorded(&new) == old) {
            return Vec::new();
        }
        let old = if old.is_empty() && ended.new.is_some() { vec![NO_CONTRIBUTIONS.to_vec()] } else { old };
        old.into_iter().map(|row| EndedRow { copy: self.number, row }).collect()
    }
}

/// `number u16 | length of the id u8 | id | length of the key's text u16 | text | number of arguments u8 | arguments`, little-endian.
fn encode(number: usize, KeyedContribution { key, contribution }: &KeyedContribution) -> Vec<u8> {
    let number = u16::try_from(number).expect("an item has at most 100 rows");
    let text = partition_key_text(&key.partition_key);
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.push(u8::try_from(contribution.id.len()).expect("ids of groups are hashes"));
    bytes.extend_from_slice(contribution.id.as_bytes());
    let length = u16::try_from(text.len()).expect("keys have at most 2 KiB");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(u8::try_from(contribution.arguments.len()).expect("a definition has at most 100 outputs"));
    contribution.arguments.iter().for_each(|argument| argument.write(&mut bytes));
    bytes
}

impl EndedContribution {
    pub fn decode(bytes: &[u8]) -> Result<EndedContribution> {
        let malformed =
            || Error::new(ErrorKind::Corrupt, "an ended group of the change log is malformed: run verify");
        let (number, rest) = bytes.split_first_chunk::<2>().ok_or_else(malformed)?;
        let (length, rest) = rest.split_first().ok_or_else(malformed)?;
        let (id, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(malformed)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (key, mut rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| malformed());
        let key = parse_partition_key(&text(key)?).map_err(|_| malformed())?;
        let (count, after) = rest.split_first().ok_or_else(malformed)?;
        rest = after;
        let arguments = (0..*count).map(|_| Argument::read(&mut rest).ok_or_else(malformed));
        let arguments = arguments.collect::<Result<_>>()?;
        if !rest.is_empty() {
            return Err(malformed());
        }
        Ok(EndedContribution { number: u16::from_le_bytes(*number), id: text(id)?, key, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_model::{KeyComponent, PartitionKeyDefinition};
    use shardlake_routing::effective_partition_key;

    #[test]
    fn ended_contributions_survive_and_malformed_ones_are_refused() {
        let partition_key = PartitionKey::single(KeyComponent::String("a\"é".into()));
        let epk = effective_partition_key(&PartitionKeyDefinition::hash("/k"), &partition_key);
        let arguments = vec![Argument::Counted, Argument::Number(0.1), Argument::Nothing];
        let contribution = Contribution { id: "abc".into(), keys: Vec::new(), arguments: arguments.clone() };
        let key = LogicalKey { epk, partition_key: partition_key.clone() };
        let bytes = encode(7, &KeyedContribution { key, contribution });
        let read = EndedContribution::decode(&bytes).expect("its own");
        assert_eq!(read, EndedContribution { number: 7, id: "abc".into(), key: partition_key, arguments });
        for end in 0..bytes.len() {
            assert!(EndedContribution::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(EndedContribution::decode(&[&bytes[..], &[0]].concat()).is_err(), "more than announced");
    }
}
