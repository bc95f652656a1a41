//! Reading of an emulator's arguments and variables.

use std::ffi::{OsStr, OsString};

use super::known::{CLASSIC_PREFIX, Effect, Known, of_argument, of_variable};
use super::{Emulated, Secret};

/// Variable of the setting that switches the mode on.
const SWITCH_VARIABLE: &str = "SHARDLAKE_EMULATOR";
const COMMAND: &str = "serve";
/// Has the settings of `serve`, and an action of its own.
const CONFIG: &str = "config";
const OTLP_ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// An argument that is not one of our flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The name as written, without a value.
    written: String,
    value: Option<String>,
}

/// Takes the emulator's arguments out of a command line. Without emulator mode the line stays as it is.
///
/// A line without a command is one of `serve`, since the images of the emulators are given arguments alone.
/// `is_setting` knows the flags of `serve`, without the two dashes.
pub fn take(
    line: Vec<OsString>,
    environment: &[(OsString, OsString)],
    is_setting: impl Fn(&str) -> bool,
) -> (Vec<OsString>, Vec<Argument>) {
    let is_switched = environment
        .iter()
        .any(|(name, value)| name == SWITCH_VARIABLE && value.to_str().and_then(truth) == Some(true));
    let word = |place: usize| line.get(place).and_then(|word| word.to_str());
    let begin = match word(1) {
        Some(COMMAND) => 2,
        Some(CONFIG) if word(2).is_some_and(|action| !action.starts_with('-')) => 3,
        Some(first) if !first.starts_with('-') || is_version(first) => return (line, Vec::new()),
        _ if is_switched => 1,
        _ => return (line, Vec::new()),
    };
    let is_flagged = line.iter().any(|text| text == "--emulator" || text == "--emulator=true");
    if !is_switched && !is_flagged {
        return (line, Vec::new());
    }
    let mut ours = if begin == 1 { vec![line[0].clone(), COMMAND.into()] } else { line[..begin].to_vec() };
    let mut others = Vec::new();
    let mut place = begin;
    while let Some(argument) = line.get(place) {
        let text = argument.to_string_lossy();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_ref(), None),
        };
        let may_have_value = value.is_none() && name.starts_with("--");
        let follows = line.get(place + 1).filter(|next| may_have_value && !is_flag(next));
        place += 1 + usize::from(follows.is_some());
        let bare = name.strip_prefix("--").unwrap_or_default();
        let is_of_config = begin == 3 && bare == "json";
        if is_help(name) || is_of_config || is_setting(bare) && !is_translated(bare) {
            ours.push(argument.clone());
            ours.extend(follows.cloned());
        } else {
            let value = value.or_else(|| follows.map(|value| value.to_string_lossy().into_owned()));
            others.push(Argument { written: name.to_owned(), value });
        }
    }
    (ours, others)
}

fn is_flag(text: &OsStr) -> bool {
    text.to_string_lossy().starts_with('-')
}

fn is_version(name: &str) -> bool {
    matches!(name, "--version" | "-V")
}

fn is_help(name: &str) -> bool {
    matches!(name, "--help" | "-h")
}

/// A name that is ours as well. The value of `--log-level` has other names in the emulator.
fn is_translated(name: &str) -> bool {
    of_argument(name).is_some_and(|known| known.effect != Effect::KeyFile)
}

impl Emulated {
    /// Reads variables, then arguments, which win.
    pub fn read(arguments: &[Argument], environment: &[(OsString, OsString)]) -> Result<Emulated, String> {
        let mut read = Emulated::default();
        let mut wants_traces = false;
        for (name, value) in environment {
            let (Some(name), value) = (name.to_str(), value.to_string_lossy()) else { continue };
            match of_variable(name) {
                // Compose files and Dockerfiles set variables that a user left empty.
                // So does Kubernetes for a service that is named health or explorer.
                Some(_) if value.is_empty() || value.starts_with("tcp://") => {}
                Some(known) => wants_traces |= read.set(known, name, &value)?,
                None if name.starts_with(CLASSIC_PREFIX) => read.unknown.push(name.to_owned()),
                None => {}
            }
        }
        for Argument { written, value } in arguments {
            match of_argument(written.strip_prefix("--").unwrap_or_default()) {
                Some(known) => {
                    wants_traces |= read.set(known, written, value.as_deref().unwrap_or("true"))?;
                }
                None => read.unknown.push(written.clone()),
            }
        }
        if wants_traces {
            read.trace(environment);
        }
        read.unknown.sort();
        read.ignored.sort();
        Ok(read)
    }

    /// Returns whether traces are wanted.
    fn set(&mut self, known: &Known, name: &str, value: &str) -> Result<bool, String> {
        match known.effect {
            Effect::Port => self.port = Some(port(name, value)?),
            Effect::ExplorerPort => self.explorer_port = Some(port(name, value)?),
            Effect::HealthPort => self.health_port = Some(port(name, value)?),
            Effect::Explorer => self.explorer = Some(switch(name, value)?),
            Effect::Protocol => self.is_https = value.starts_with("https"),
            Effect::Name => self.names.extend(host(value)),
            Effect::Key => self.key = Some(Secret(value.to_owned())),
            Effect::KeyFile => self.key_file = Some(value.into()),
            Effect::DataDir => self.data_dir = Some(value.into()),
            Effect::Certificate => self.certificate = Some(value.into()),
            Effect::CertificateSecret => self.certificate_secret = Some(Secret(value.to_owned())),
            Effect::LogLevel => {
                let level = value.to_ascii_lowercase();
                self.log_level = Some(if level == "quiet" { "off".to_owned() } else { level });
            }
            Effect::Traces => return switch(name, value),
            // A version, such as 4.0, switches it on as well.
            Effect::Mongo => self.serves_mongo = truth(value).unwrap_or(true),
            Effect::Ignored => self.ignored.push(name.to_owned()),
        }
        Ok(false)
    }

    /// Sends traces to the collector that OpenTelemetry's own variable names.
    fn trace(&mut self, environment: &[(OsString, OsString)]) {
        let endpoint = environment.iter().find(|(name, _)| name == OTLP_ENDPOINT_VARIABLE);
        match endpoint.and_then(|(_, value)| value.to_str()) {
            Some(endpoint) if cfg!(feature = "otlp") => self.otlp_endpoint = Some(endpoint.to_owned()),
            _ => self.ignored.push("ENABLE_OTLP_EXPORTER".to_owned()),
        }
    }
}

fn port(name: &str, value: &str) -> Result<u16, String> {
    value.parse().map_err(|_| format!("{name} '{value}' is no port: write a number from 0 to 65535"))
}

fn switch(name: &str, value: &str) -> Result<bool, String> {
    truth(value).ok_or_else(|| format!("{name} '{value}' is neither true nor false"))
}

fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The host of `host`, `host:port` or a URL.
fn host(value: &str) -> Option<String> {
    let authority = value.split_once("://").map_or(value, |(_, rest)| rest);
    let authority = authority.split('/').next()?;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.contains(':') => host,
        _ => authority,
    };
    Some(host.trim_matches(['[', ']']).to_owned()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn taken(line: &[&str], variables: &[(&str, &str)]) -> (String, Vec<Argument>) {
        let line = line.iter().map(OsString::from).collect();
        let is_setting =
            |name: &str| matches!(name, "emulator" | "listen" | "standby" | "key-file" | "log-level");
        let (ours, others) = take(line, &environment(variables), is_setting);
        let ours: Vec<_> = ours.iter().map(|text| text.to_string_lossy()).collect();
        (ours.join(" "), others)
    }

    fn argument(written: &str, value: Option<&str>) -> Argument {
        Argument { written: written.to_owned(), value: value.map(str::to_owned) }
    }

    #[test]
    fn arguments_of_the_emulator_are_taken_out_of_the_line() {
        let (ours, others) = taken(
            &[
                "s",
                "serve",
                "--emulator",
                "--enable-explorer",
                "false",
                "--listen",
                "x:0",
                "--port=9",
                "-q",
                "/NoUI",
            ],
            &[],
        );
        assert_eq!(ours, "s serve --emulator --listen x:0");
        let expected = [
            argument("--enable-explorer", Some("false")),
            argument("--port", Some("9")),
            argument("-q", None),
            argument("/NoUI", None),
        ];
        assert_eq!(others, expected);
        let (ours, others) =
            taken(&["s", "serve", "--emulator", "--log-level", "quiet", "--key-file=k"], &[]);
        assert_eq!(
            (ours.as_str(), others),
            ("s serve --emulator --key-file=k", vec![argument("--log-level", Some("quiet"))])
        );
    }

    #[test]
    fn a_variable_switches_the_mode_on_and_other_commands_stay_as_they_are() {
        let on = [("SHARDLAKE_EMULATOR", "true")];
        assert_eq!(taken(&["s"], &on).0, "s serve");
        assert_eq!(taken(&["s", "--port", "9"], &on).0, "s serve");
        assert_eq!(taken(&["s", "partitions", "--port"], &on).0, "s partitions --port");
        assert_eq!(taken(&["s", "serve", "--port"], &[]).0, "s serve --port");
        let (ours, others) = taken(&["s", "config", "print", "--emulator", "--json", "--port", "9"], &[]);
        assert_eq!(
            (ours.as_str(), others),
            ("s config print --emulator --json", vec![argument("--port", Some("9"))])
        );
        assert_eq!(taken(&["s", "config", "--port"], &on).0, "s config --port");
        assert_eq!(taken(&["s", "--version"], &on).0, "s --version");
        assert_eq!(taken(&["s", "-V"], &[]).0, "s -V");
        assert_eq!(taken(&["s", "serve", "--help"], &on).0, "s serve --help");
    }

    #[test]
    fn arguments_win_over_variables_and_unknown_names_are_kept() {
        let variables = environment(&[
            ("PORT", "1"),
            ("EXPLORER_PORT", ""),
            ("LOG_LEVEL", "quiet"),
            ("GATEWAY_PUBLIC_ENDPOINT", "https://db.example:8081/"),
            ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "10.0.0.7"),
            ("AZURE_COSMOS_EMULATOR_NONE", "x"),
            ("ENABLE_TELEMETRY", "false"),
            ("HOME", "/"),
        ]);
        let arguments =
            [argument("--port", Some("2")), argument("--enable-explorer", None), argument("-q", None)];
        let read = Emulated::read(&arguments, &variables).expect("valid");
        assert_eq!((read.port, read.explorer_port, read.explorer), (Some(2), None, Some(true)));
        assert_eq!(read.log_level.as_deref(), Some("off"));
        assert_eq!(read.names, ["db.example", "10.0.0.7"]);
        assert_eq!(read.unknown, ["-q", "AZURE_COSMOS_EMULATOR_NONE"]);
        assert_eq!(read.ignored, ["ENABLE_TELEMETRY"]);
        for (name, value) in [("PORT", "x"), ("PORT", "70000"), ("ENABLE_EXPLORER", "maybe")] {
            let refused = Emulated::read(&[], &environment(&[(name, value)])).expect_err(value);
            assert!(refused.contains(name) && refused.contains(value), "{refused}");
        }
    }

    #[test]
    fn keys_are_in_no_debug_text() {
        let read = Emulated::read(&[], &environment(&[("AZURE_COSMOS_EMULATOR_KEY", "c2VjcmV0")]));
        let read = read.expect("valid");
        assert_eq!(read.key, Some(Secret("c2VjcmV0".to_owned())));
        assert!(!format!("{read:?}").contains("c2VjcmV0"));
    }
}
