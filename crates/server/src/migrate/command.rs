//! The arguments of `shardlake migrate`.

use std::path::PathBuf;

use clap::Args;

use crate::operate::Connection;

#[derive(Debug, Args)]
pub struct Migrate {
    /// Where the account is: a data directory, or s3://BUCKET/PREFIX, az://, gs:// or file:///
    #[arg(long, value_name = "DIR|URL")]
    pub(super) from: PathBuf,
    /// Where it goes: a prefix that holds nothing, or a data directory that is empty or does not exist
    #[arg(long, value_name = "DIR|URL")]
    pub(super) to: PathBuf,
    /// Another store for the log of the account in a store, as `serve --wal-store` has it
    #[arg(long, value_name = "URL")]
    pub(super) wal_store: Option<String>,
    /// Copy what a running server has and follow what it writes until little is left; the account stays with it until the move without
    /// this, which then has only that little to do
    #[arg(long)]
    pub(super) online: bool,
    /// Read and compare all rows of both sides once more before the move, though the log proves that they are equal
    #[arg(long, conflicts_with = "online")]
    pub(super) compare: bool,
    /// Where to copy the journals of a stopped server to, for a look at them [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(super) connection: Connection,
}
