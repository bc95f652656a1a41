//! The hot tenant in a browser: a server in memory, whose tenants send requests without end, and an address that shows it in steps.
//!
//! Both designs have the same traffic, so that one may be compared with the other. The busy tenant requests more than its
//! partition's share and less than the maximum of a partition: the remedy that the server proposes cures it, and another
//! key would have prevented it. The explorer defines the steps (`explorer/src/pages/partitions/tour.tsx`).

use std::time::Duration;

use shardlake_account::{Account, ContainerHandle};
use shardlake_model::{Limits, RequestContext, Result, Throughput};

use super::tenants::Design;
use super::traffic::{self, Loaded, Pace};
use super::{DATABASE, THROUGHPUT};

/// Behind the explorer's root.
pub const LINK: &str = "c/saas/by-tenant/partitions#tour=1";
/// On a machine that is too slow for the traffic, requests that are late are dropped this often.
const ROUND: Duration = Duration::from_secs(10);
/// With its writes and its neighbours, less than the 1,000 RU/s that a partition may serve, and more than 600.
const BUSY_PERCENT: u64 = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tour {
    pub seed_number: u64,
}

impl Tour {
    /// The limits of the story: low enough to be met.
    pub fn limits() -> Limits {
        super::limits()
    }

    /// Stores the tenants' items under either key, and lets their traffic begin.
    pub async fn begin(self, account: &Account) -> Result<()> {
        let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
        account.definitions().create_database(&context, DATABASE, None).await?;
        for design in [Design::ByTenant, Design::ByTenantAndUser] {
            let definition =
                serde_json::from_value(design.definition()).expect("our own definitions are valid");
            let throughput = Some(Throughput::Manual(THROUGHPUT));
            let container =
                account.definitions().create_container(&context, DATABASE, definition, throughput).await?;
            let loaded = traffic::load(account, &container, design).await?;
            tokio::spawn(self.ask(account.clone(), container, design, loaded));
        }
        Ok(())
    }

    async fn ask(self, account: Account, container: ContainerHandle, design: Design, loaded: Vec<Loaded>) {
        for round in 0_u64.. {
            let seed_number = self.seed_number.wrapping_add(round << 8);
            let pace = Pace { duration: ROUND, seed_number, busy_percent: BUSY_PERCENT };
            if let Err(error) = traffic::run(&account, &container, design, &loaded, pace).await {
                // A user has deleted the container, or the server stops.
                tracing::info!(container = design.container(), %error, "the tenants' traffic has ended");
                return;
            }
        }
    }
}
