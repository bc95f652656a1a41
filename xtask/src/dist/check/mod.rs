//! Checks of artefacts: each is installed as a user would, offline, and the server from it answers.

mod archive;
mod artefacts;
mod bill;
mod debian;
mod image;
mod packages;
mod server;

pub use artefacts::{Artefacts, SUMS};

use crate::Outcome;
use crate::tally::Skip;
use artefacts::Verdict;

type Check = (&'static str, fn(&Artefacts) -> Outcome<Verdict>);

const CHECKS: [Check; 16] = [
    ("the sums are those of the files", archive::sums),
    ("the archive unpacks to a server that answers", archive::serves),
    ("the archive has the name that cargo binstall expects", archive::has_the_expected_name),
    ("the program names its origin and needs no newer glibc", archive::names_its_origin),
    ("manual pages render and completions parse", archive::documents),
    ("the bill of materials is consistent", bill::is_consistent),
    ("the bill of materials follows the schema of CycloneDX", bill::follows_the_schema),
    ("the Debian package describes itself", debian::describes_itself),
    ("the Debian package unpacks to a server that answers", debian::serves),
    ("the scripts of the Debian package parse", debian::scripts_parse),
    ("the systemd unit is good", debian::unit),
    ("the image is what its digests name", image::is_complete),
    ("the image starts a server in its own root", image::serves),
    ("the wheel installs a server that answers", packages::wheel),
    ("the npm package installs a server that answers", packages::npm),
    ("npx starts the program of the npm package", packages::npx),
];

#[derive(Debug, Default)]
pub struct Checked {
    pub passed: u64,
    pub failed: u64,
    pub skips: Vec<Skip>,
}

impl Artefacts {
    /// Runs every check to its end and prints how it ended.
    pub fn check_all(&self) -> Checked {
        let mut checked = Checked::default();
        for (name, check) in CHECKS {
            // A server that does not start panics in the fixture of tests.
            let outcome = std::panic::catch_unwind(|| check(self).map_err(|error| error.to_string()));
            match outcome.unwrap_or_else(|_| Err("it panicked, see above".to_owned())) {
                Ok(Verdict::Good) => {
                    println!("good     {name}");
                    checked.passed += 1;
                }
                Ok(Verdict::Skipped(reason)) => {
                    println!("SKIPPED  {name}: {reason}");
                    checked.skips.push(Skip { test: name.to_owned(), reason: reason.to_owned() });
                }
                Err(error) => {
                    println!("NOT GOOD {name}: {error}");
                    checked.failed += 1;
                }
            }
        }
        checked
    }
}
