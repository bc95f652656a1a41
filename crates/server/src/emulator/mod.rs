//! Emulator mode: the arguments and variables of the two emulators that this server stands in for.
//!
//! A user who swaps the image of an emulator keeps its variables, arguments, ports and log lines. `known.rs` lists them,
//! with the effect that each has here. `read.rs` separates the arguments from our own flags and reads both into
//! [`Emulated`]; `layers.rs` lays that over the settings. A name that neither emulator has is logged, and ends no start:
//! the emulators ignore such names as well.

mod known;
mod read;

use std::fmt;
use std::path::PathBuf;

pub use read::{Argument, take};

/// Port of the API where no other is given, as in both emulators.
pub const PORT: u16 = 8081;
/// Port of the explorer's own listener.
pub const EXPLORER_PORT: u16 = 1234;
/// Port that readiness probes ask at `/ready`.
pub const HEALTH_PORT: u16 = 8080;
/// Id of the account, which a test of a Testcontainers module compares.
pub const ACCOUNT_ID: &str = "cosmosdev";
/// Address of the listener for MongoDB's drivers, as in the classic emulator.
pub const MONGO_LISTEN: &str = "0.0.0.0:10255";

/// The settings of an emulator, as given by its arguments and variables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emulated {
    pub port: Option<u16>,
    pub explorer_port: Option<u16>,
    pub health_port: Option<u16>,
    /// A flag `--listen` names all listeners, so that no port of the emulators is added.
    pub has_listen_flag: bool,
    pub explorer: Option<bool>,
    /// Names that clients use for the server.
    pub names: Vec<String>,
    pub key: Option<Secret>,
    pub key_file: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    /// PKCS#12, or a PEM file with certificates and key.
    pub certificate: Option<PathBuf>,
    pub certificate_secret: Option<Secret>,
    pub log_level: Option<String>,
    pub otlp_endpoint: Option<String>,
    /// The scheme in the log line that names the listener. Every listener serves both.
    pub is_https: bool,
    pub serves_mongo: bool,
    /// Known names without an effect here.
    pub ignored: Vec<String>,
    /// Addresses of a variable or of the settings file whose port the mode serves on all interfaces.
    pub not_served: Vec<String>,
    /// Names that neither emulator has.
    pub unknown: Vec<String>,
}

/// A key or passphrase, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Emulated {
    /// Logs the names without an effect.
    pub fn log(&self) {
        if !self.unknown.is_empty() {
            let names = self.unknown.join(", ");
            tracing::warn!("emulator mode does not know these arguments and variables: {names}");
        }
        if !self.not_served.is_empty() {
            let addresses = self.not_served.join(", ");
            tracing::warn!(
                "emulator mode serves the ports of these addresses on all interfaces: {addresses}; the flag --listen replaces all addresses"
            );
        }
        if !self.ignored.is_empty() {
            let names = self.ignored.join(", ");
            tracing::info!("emulator mode accepts and ignores: {names}");
        }
    }
}
