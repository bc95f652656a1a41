//! Kinds of machines that releases are made for.

use crate::Outcome;

/// One machine under the names that packages have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub rust: &'static str,
    pub debian: &'static str,
    pub image: &'static str,
    pub node: &'static str,
    pub wheel: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        rust: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        image: "amd64",
        node: "x64",
        wheel: "x86_64",
    },
    Machine {
        rust: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        image: "arm64",
        node: "arm64",
        wheel: "aarch64",
    },
];

impl Machine {
    pub fn of_this_one() -> Outcome<Machine> {
        let found = MACHINES.into_iter().find(|machine| machine.wheel == std::env::consts::ARCH);
        let found = found.filter(|_| cfg!(target_os = "linux"));
        Ok(found.ok_or("packages are made on Linux, on x86-64 or ARM64: each on a machine of its kind")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_its_names() {
        let machine = Machine::of_this_one().expect("tests run on Linux");
        assert!(machine.rust.starts_with(std::env::consts::ARCH) && machine.debian == machine.image);
    }
}
