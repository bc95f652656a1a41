//! What the operating system withholds from a worker, as the worker reports it and operators see it.

use serde::{Deserialize, Serialize};

/// A layer of confinement. Each holds by itself; together they leave a worker one socket and a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// No program that it could start has more rights than it has.
    NoNewPrivileges,
    /// None of the rights of an administrator, even where the server has them.
    Capabilities,
    /// Other processes of the same user may not look into it, and it leaves no core file.
    NotDumpable,
    /// The system calls of `worker/sandbox.rs` and no others.
    Seccomp,
}

impl Layer {
    pub const ALL: [Layer; 4] =
        [Layer::NoNewPrivileges, Layer::Capabilities, Layer::NotDumpable, Layer::Seccomp];

    /// As logs and metrics say it.
    pub fn name(self) -> &'static str {
        match self {
            Layer::NoNewPrivileges => "no-new-privileges",
            Layer::Capabilities => "capabilities",
            Layer::NotDumpable => "not-dumpable",
            Layer::Seccomp => "seccomp",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The layers that hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Confined(u8);

impl Confined {
    pub fn has(self, layer: Layer) -> bool {
        self.0 & layer.bit() != 0
    }

    pub(crate) fn with(self, layer: Layer) -> Confined {
        Confined(self.0 | layer.bit())
    }

    /// What the kernel refused, by name.
    pub(crate) fn missing(self) -> Vec<&'static str> {
        Layer::ALL.into_iter().filter(|layer| !self.has(*layer)).map(Layer::name).collect()
    }
}

impl From<Confined> for u8 {
    fn from(confined: Confined) -> u8 {
        confined.0
    }
}

impl TryFrom<u8> for Confined {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Confined, &'static str> {
        let known = Layer::ALL.into_iter().fold(0, |bits, layer| bits | layer.bit());
        if bits & !known == 0 { Ok(Confined(bits)) } else { Err("a bit stands for no layer") }
    }
}
