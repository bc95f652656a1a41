//! Every argument and variable of the vNext and the classic emulator, and its effect here.
//!
//! `docs/emulator.md` has the same table for users; a test compares the two.

/// The effect of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Port,
    ExplorerPort,
    HealthPort,
    Explorer,
    Protocol,
    Name,
    Key,
    KeyFile,
    DataDir,
    Certificate,
    CertificateSecret,
    LogLevel,
    Traces,
    Mongo,
    Ignored,
}

/// A setting of an emulator.
#[derive(Debug)]
pub struct Known {
    /// Without the two dashes; empty where there is none.
    pub argument: &'static str,
    pub variable: &'static str,
    pub effect: Effect,
}

const fn known(argument: &'static str, variable: &'static str, effect: Effect) -> Known {
    Known { argument, variable, effect }
}

pub const CLASSIC_PREFIX: &str = "AZURE_COSMOS_EMULATOR_";

pub const KNOWN: [Known; 24] = [
    known("port", "PORT", Effect::Port),
    known("explorer-port", "EXPLORER_PORT", Effect::ExplorerPort),
    // Ours: the emulators have no name for it.
    known("health-port", "HEALTH_PORT", Effect::HealthPort),
    known("protocol", "PROTOCOL", Effect::Protocol),
    known("explorer-protocol", "EXPLORER_PROTOCOL", Effect::Ignored),
    known("enable-explorer", "ENABLE_EXPLORER", Effect::Explorer),
    known("gateway-endpoint", "GATEWAY_PUBLIC_ENDPOINT", Effect::Name),
    known("key-file", "KEY_FILE", Effect::KeyFile),
    known("data-path", "DATA_PATH", Effect::DataDir),
    known("cert-path", "CERT_PATH", Effect::Certificate),
    known("", "CERT_SECRET", Effect::CertificateSecret),
    known("log-level", "LOG_LEVEL", Effect::LogLevel),
    known("enable-otlp", "ENABLE_OTLP_EXPORTER", Effect::Traces),
    known("enable-console", "ENABLE_CONSOLE_EXPORTER", Effect::Ignored),
    known("enable-telemetry", "ENABLE_TELEMETRY", Effect::Ignored),
    known("", "NODE_EXTRA_CA_CERTS", Effect::Ignored),
    known("", "AZURE_COSMOS_EMULATOR_KEY", Effect::Key),
    known("", "AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", Effect::Name),
    known("", "AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT", Effect::Mongo),
    known("", "AZURE_COSMOS_EMULATOR_PARTITION_COUNT", Effect::Ignored),
    known("", "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", Effect::Ignored),
    // Read by the Testcontainers module for Python; a process in the container's place may inherit them.
    known("", "AZURE_COSMOS_EMULATOR_BIND_PORTS", Effect::Ignored),
    known("", "AZURE_COSMOS_EMULATOR_IMAGE", Effect::Ignored),
    known("", "AZURE_COSMOS_EMULATOR_ENABLE_TELEMETRY", Effect::Ignored),
];

pub fn of_argument(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| !known.argument.is_empty() && known.argument == name)
}

pub fn of_variable(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.variable == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_a_row_for_each() {
        let document = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/emulator.md");
        let document = std::fs::read_to_string(document).expect("a file of the repository");
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| ")).collect();
        for Known { argument, variable, effect } in &KNOWN {
            let row = rows.iter().find(|row| row.contains(&format!("`{variable}`")));
            let row = row.unwrap_or_else(|| panic!("{variable} is in no table"));
            assert!(argument.is_empty() || row.contains(&format!("`--{argument}")), "{argument}: {row}");
            let is_ignored = row.contains("| ignored");
            assert_eq!(is_ignored, *effect == Effect::Ignored, "{variable}: {row}");
        }
    }
}
