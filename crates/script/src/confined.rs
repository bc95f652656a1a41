//! The layers of a worker's confinement by the operating system, as the worker reports them and operators see
//! them.

use serde::{Deserialize, Serialize};

/// A layer of confinement. Each layer is effective alone; together they leave a worker one socket and
/// processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Programs that it starts cannot gain rights.
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

    /// The name in logs and metrics.
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

/// The layers in effect.
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

    /// The names of the layers that the kernel refused.
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
