//! Provisioned throughput: a client's request, and the offer that records it.

use serde::{Deserialize, Serialize};

use crate::{Error, Limits, OfferRid, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Throughput {
    /// Request units per second.
    Manual(u64),
    Autoscale(Autoscale),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Autoscale {
    pub max_throughput: u64,
    /// Percentage by which the maximum grows with storage; kept, not acted on.
    pub increment_percent: Option<u64>,
    /// A replace left the growth policy out, so that the offer shows none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_growth: bool,
}

impl Autoscale {
    pub fn new(max_throughput: u64) -> Autoscale {
        Autoscale { max_throughput, increment_percent: None, hides_growth: false }
    }
}

impl Throughput {
    /// Request units per second available now: autoscale starts at a tenth of its maximum.
    pub fn current(self) -> u64 {
        match self {
            Throughput::Manual(units) => units,
            Throughput::Autoscale(autoscale) => autoscale.max_throughput / 10,
        }
    }

    pub fn maximum(self) -> u64 {
        match self {
            Throughput::Manual(units) => units,
            Throughput::Autoscale(autoscale) => autoscale.max_throughput,
        }
    }

    /// The same kind with another maximum.
    #[must_use]
    pub fn resized(self, maximum: u64) -> Throughput {
        match self {
            Throughput::Manual(_) => Throughput::Manual(maximum),
            Throughput::Autoscale(autoscale) => {
                Throughput::Autoscale(Autoscale { max_throughput: maximum, ..autoscale })
            }
        }
    }

    /// Physical partitions that a container with this throughput starts with.
    pub fn partition_count(self, limits: &Limits) -> usize {
        let units = match self {
            Throughput::Manual(units) => units.div_ceil(limits.throughput_per_partition),
            Throughput::Autoscale(autoscale) => {
                autoscale.max_throughput.div_ceil(limits.autoscale_throughput_per_partition)
            }
        };
        (units as usize).clamp(1, limits.partitions_per_container_max)
    }

    /// Checks minimum, step and maximum. `minimum` is [`Offer::minimum`] for a replace, or the default.
    pub fn validate(self, limits: &Limits, minimum: i64) -> Result<()> {
        let (units, step, name) = match self {
            Throughput::Manual(units) => (units, 100, "throughput"),
            Throughput::Autoscale(autoscale) => (autoscale.max_throughput, 1000, "autoscale max throughput"),
        };
        if (units as i64) < minimum {
            return Err(Error::bad_request(format!(
                "Requested {name} {units} is less than required minimum throughput {minimum}"
            )));
        }
        if units > limits.throughput_max {
            return Err(Error::bad_request(format!(
                "Requested {name} {units} is more than the maximum throughput {}",
                limits.throughput_max
            )));
        }
        if units % step != 0 {
            return Err(Error::bad_request(format!(
                "Requested {name} {units} is invalid: it must be a multiple of {step}"
            )));
        }
        Ok(())
    }

    pub fn minimum_for_new(self, limits: &Limits) -> i64 {
        match self {
            Throughput::Manual(_) => limits.throughput_min as i64,
            Throughput::Autoscale(_) => limits.autoscale_max_throughput_min as i64,
        }
    }
}

/// The record of a database's or container's throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    pub rid: OfferRid,
    /// `_self` of the database or container, byte for byte: SDKs look offers up by it.
    pub resource: String,
    /// Rid of the database or container.
    pub resource_rid: String,
    pub throughput: Throughput,
    /// Highest throughput ever provisioned: the minimum follows it.
    pub highest_throughput: u64,
    /// A client set the throughput, so operations are limited to it. A default throughput is shown and not
    /// enforced.
    #[serde(default)]
    pub enforced: bool,
    /// Unix seconds.
    pub timestamp: u64,
    pub etag: [u8; 16],
}

impl Offer {
    /// Lowest throughput a replace may set: max(400, highest ÷ 100), or max(1000, highest ÷ 10) for autoscale.
    pub fn minimum(&self, wanted: Throughput, limits: &Limits) -> u64 {
        match wanted {
            Throughput::Manual(_) => {
                limits.throughput_min.max((self.highest_throughput / 100).next_multiple_of(100))
            }
            Throughput::Autoscale(_) => {
                limits.autoscale_max_throughput_min.max((self.highest_throughput / 10).next_multiple_of(1000))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_counts_follow_the_documented_rule() {
        let limits = Limits::default();
        for (units, count) in [(400, 1), (6000, 1), (6001, 2), (12_000, 2), (30_000, 5)] {
            assert_eq!(Throughput::Manual(units).partition_count(&limits), count, "{units}");
        }
        for (units, count) in [(1000, 1), (10_000, 1), (11_000, 2), (40_000, 4)] {
            assert_eq!(
                Throughput::Autoscale(Autoscale::new(units)).partition_count(&limits),
                count,
                "{units}"
            );
        }
    }

    #[test]
    fn throughput_outside_its_bounds_is_refused_in_words() {
        let limits = Limits::default();
        for (units, words) in
            [(300, "less than required minimum"), (450, "multiple of 100"), (2_000_000, "maximum")]
        {
            let error = Throughput::Manual(units).validate(&limits, 400).expect_err("refused");
            assert!(error.message().contains(words), "{error}");
        }
    }
}
