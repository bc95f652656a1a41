//! Databases, containers and all that belongs to them: the operations that change definitions.
//!
//! | file | contents |
//! |---|---|
//! | `databases.rs`, `containers.rs`, `offers.rs` | databases, containers and their throughput |
//! | `analytical.rs` | analytical stores of containers, as policies and operators ask for them |
//! | `secondary_indexes.rs` | global secondary indexes: rules of their creation and replacement; their state |
//! | `index_settings.rs` | settings of a global secondary index that change while it is there |
//! | `kept.rs` | data of a front end that is kept with them |
//! | `logins.rs` | logins over a front end's own protocol |
//! | `users.rs`, `permissions.rs` | users of a database; the grant of a permission, and whether it still holds |
//! | `scripts.rs` | stored procedures, triggers and user-defined functions as resources of a container |
//! | `stored.rs` | the definitions that a stopped server has stored |
//!
//! [`Resources`] is the API. It builds on [`Serving`]; all changes use its one way to change a definition.

mod analytical;
mod containers;
mod databases;
mod index_settings;
mod kept;
mod logins;
mod offers;
mod permissions;
mod scripts;
mod secondary_indexes;
mod stored;
mod users;

use std::sync::Arc;

use shardlake_catalog::AnalyticalMode;
use shardlake_router::Serving;
use shardlake_script::Scripts;
use shardlake_sql::Dialect;

pub use analytical::not_enabled;
pub use index_settings::IndexSettingsChange;
pub use kept::{Keeping, Redefined};
pub use permissions::{GrantedChild, ResourceLink};
pub use scripts::ScriptWrite;
pub use secondary_indexes::{IndexOfSource, SecondaryIndexView};
pub use stored::stored_definitions;

/// Definitions, read and changed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Resources(Arc<ResourcesState>);

#[derive(Debug)]
struct ResourcesState {
    router: Serving,
    /// Reads the texts of scripts before they are stored.
    scripts: Scripts,
    analytical: AnalyticalMode,
    /// Of definitions of new indexes.
    dialect: Dialect,
}

impl Resources {
    pub fn new(router: Serving, scripts: Scripts, analytical: AnalyticalMode, dialect: Dialect) -> Resources {
        Resources(Arc::new(ResourcesState { router, scripts, analytical, dialect }))
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    /// Whether containers may have analytical stores.
    pub fn has_analytical_stores(&self) -> bool {
        matches!(self.0.analytical, AnalyticalMode::On { .. })
    }
}
