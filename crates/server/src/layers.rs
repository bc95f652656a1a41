//! Brings the three places of a setting together: flags over variables over the file.
//!
//! A variable `SHARDLAKE_…` that is no setting may belong to another program: Kubernetes puts a dozen of them into every pod in the namespace of a service of
//! that name. A warning names it, and it has no effect, unless it looks like a setting that was misspelled ([`near_miss`]).
//!
//! A variable is read as the flag of the same name would be, by the same parser; so the two cannot drift apart. The layers are
//! then merged as JSON objects that hold only the settings that were given.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser};
use serde_json::{Map, Value};
use shardlake_stdx::near_miss;

use crate::emulator::{self, Emulated, MONGO_LISTEN};
use crate::operate::KEY_VARIABLE;
use crate::settings::{ExplorerMode, Settings};

const PREFIX: &str = "SHARDLAKE_";
const PORT_VARIABLE: &str = "SHARDLAKE_PORT";
/// Names the settings file where `--config` does not.
pub const CONFIG_VARIABLE: &str = "SHARDLAKE_CONFIG";

/// For a name that many programs have.
pub const PORT_IS_OF_LISTEN: &str =
    "there is no setting for the port alone: it is a part of `listen`, such as 127.0.0.1:9000";

/// Settings as a command line of their own, to read variables with.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct AsFlags {
    #[command(flatten)]
    settings: Settings,
}

/// Settings merged from flags, variables and the file.
#[derive(Debug, Default)]
pub struct Merged {
    pub settings: Settings,
    /// Variables with our prefix that are no settings, in order.
    pub passed_over: Vec<String>,
}

/// The settings of each place.
#[derive(Debug, Default)]
pub struct Layers {
    /// The file that is read, if one is named.
    pub file: Option<PathBuf>,
    of_file: Map<String, Value>,
    of_variables: Map<String, Value>,
    of_flags: Map<String, Value>,
    passed_over: Vec<String>,
}

/// The place that a setting has its value from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Flag,
    Variable,
    File,
}

impl Layers {
    pub fn read(
        flags: &Settings,
        config: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Layers, String> {
        let mut named = None;
        let mut variables = Vec::new();
        for (name, value) in environment {
            match name.to_str() {
                Some(CONFIG_VARIABLE) => named = Some(value),
                // For the operator's commands; a server has its keys from files.
                Some(KEY_VARIABLE) => {}
                // Kubernetes writes a URL into it.
                Some(PORT_VARIABLE) if value.to_str().is_some_and(|value| value.parse::<u16>().is_ok()) => {
                    return Err(format!(
                        "the environment variable {PORT_VARIABLE}: {PORT_IS_OF_LISTEN} in SHARDLAKE_LISTEN"
                    ));
                }
                Some(name) if name.starts_with(PREFIX) && !is_of_kubernetes(name) => {
                    variables.push((name.to_owned(), value));
                }
                _ => {}
            }
        }
        let file = config.map(Path::to_owned).or(named.map(Into::into));
        let of_file = match &file {
            Some(path) => to_map(&read_file(path)?),
            None => Map::new(),
        };
        let (from_variables, passed_over) = read_variables(variables)?;
        let (of_variables, of_flags) = (to_map(&from_variables), to_map(flags));
        Ok(Layers { file, of_file, of_variables, of_flags, passed_over })
    }

    pub fn merged(&self) -> Result<Merged, String> {
        let mut merged = self.of_file.clone();
        merged.extend(self.of_variables.clone());
        merged.extend(self.of_flags.clone());
        let settings = serde_json::from_value(Value::Object(merged)).map_err(|error| error.to_string())?;
        Ok(Merged { settings, passed_over: self.passed_over.clone() })
    }

    /// `None` where no place has the setting.
    pub fn place_of(&self, name: &str) -> Option<Place> {
        let places = [
            (&self.of_flags, Place::Flag),
            (&self.of_variables, Place::Variable),
            (&self.of_file, Place::File),
        ];
        places.into_iter().find(|(layer, _)| layer.contains_key(name)).map(|(_, place)| place)
    }
}

/// Every setting with the first line of its help, in the order of the help.
pub fn described() -> Vec<(String, String)> {
    let command = AsFlags::command();
    let settings = command.get_arguments().filter_map(|argument| {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        Some((argument.get_long()?.to_owned(), help))
    });
    settings.filter(|(name, _)| name != "help").collect()
}

/// The name of a setting's variable.
pub fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// Lays the arguments and variables of an emulator over variables and file, where emulator mode is on. Flags win over both.
pub fn emulate(
    settings: &mut Settings,
    flags: &Settings,
    arguments: &[emulator::Argument],
    environment: &[(OsString, OsString)],
) -> Result<(), String> {
    if settings.emulator != Some(true) {
        return match settings.emulator_pem {
            Some(_) => Err("--emulator-pem needs --emulator".into()),
            None => Ok(()),
        };
    }
    let mut read = Emulated::read(arguments, environment)?;
    read.has_listen_flag = flags.listen.is_some();
    lay(&mut settings.data_dir, &flags.data_dir, read.data_dir.take());
    lay(&mut settings.key_file, &flags.key_file, read.key_file.take());
    lay(&mut settings.log_level, &flags.log_level, read.log_level.take());
    lay(&mut settings.otlp_endpoint, &flags.otlp_endpoint, read.otlp_endpoint.take());
    let explorer = read.explorer.map(|is_on| if is_on { ExplorerMode::On } else { ExplorerMode::Off });
    lay(&mut settings.explorer, &flags.explorer, explorer);
    settings.tls_name.get_or_insert_default().append(&mut read.names);
    if read.serves_mongo && flags.mongo_listen.is_none() {
        let listen = settings.mongo_listen.get_or_insert_default();
        listen.extend((!listen.iter().any(|listen| listen == MONGO_LISTEN)).then(|| MONGO_LISTEN.to_owned()));
    }
    settings.emulated = Some(read);
    Ok(())
}

fn lay<T>(setting: &mut Option<T>, flag: &Option<T>, given: Option<T>) {
    if flag.is_none() && given.is_some() {
        *setting = given;
    }
}

/// Whether a flag of `serve` has this name.
pub fn is_setting(name: &str) -> bool {
    name == "config" || AsFlags::command().get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// Address variables of a service whose name begins with `shardlake`: `…_SERVICE_HOST`, `…_PORT`, `…_PORT_8081_TCP_ADDR` and others.
fn is_of_kubernetes(name: &str) -> bool {
    if name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.ends_with("_PORT") {
        return true;
    }
    let Some((_, rest)) = name.split_once("_PORT_") else { return false };
    let mut parts = rest.split('_');
    let number = parts.next().unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
}

/// The settings that are given, by their names.
pub fn to_map(settings: &Settings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        // Paths that are not Unicode are the only thing JSON cannot hold.
        _ => Map::new(),
    }
}

fn read_file(path: &Path) -> Result<Settings, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the settings file '{}' cannot be read: {error}", path.display()))?;
    let read: Result<Settings, _> = toml::from_str(&text);
    let settings = read.map_err(|error| {
        let line = |start: usize| text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        let place = error.span().map_or(String::new(), |span| format!(", line {}", line(span.start)));
        let key = error.span().and_then(|span| key_of_line(&text, line(span.start)));
        let named = key.map_or(String::new(), |key| format!("`{key}`: "));
        match short(error.message()) {
            Short::UnknownKey(message) => format!("the settings file '{}'{place}: {message}", path.display()),
            Short::Other(message) => {
                format!("the settings file '{}'{place}: {named}{message}", path.display())
            }
        }
    })?;
    settings.fold_tables().map_err(|error| format!("the settings file '{}': {error}", path.display()))
}

/// The key that a line gives a value.
fn key_of_line(text: &str, number: usize) -> Option<&str> {
    let key = text.lines().nth(number.checked_sub(1)?)?.split_once('=')?.0.trim();
    Some(key).filter(|key| !key.is_empty())
}

/// The message of an error in a file.
enum Short {
    /// It names the key itself.
    UnknownKey(String),
    Other(String),
}

/// An error about a key, with the setting that it was meant to be instead of all that there are.
fn short(error: &str) -> Short {
    let name = error.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((name, _)) = name.filter(|(_, expected)| expected.contains("`data-dir`")) else {
        // Only lists and sizes may be written in two ways.
        return Short::Other(match error.contains("untagged enum") {
            true => "write a text, a number for a size, or an array of texts for a list".to_owned(),
            false => error.to_owned(),
        });
    };
    let known = AsFlags::command();
    Short::UnknownKey(
        match near_miss(name, known.get_arguments().filter_map(|argument| argument.get_long())) {
            Some(meant) => format!("unknown setting `{name}`: did you mean `{meant}`?"),
            None if name == "port" => PORT_IS_OF_LISTEN.to_owned(),
            None => format!("unknown setting `{name}`: `shardlake help serve` lists them"),
        },
    )
}

/// The settings among variables, and the names of the others.
fn read_variables(variables: Vec<(String, OsString)>) -> Result<(Settings, Vec<String>), String> {
    let known = AsFlags::command();
    let mut arguments = Vec::new();
    let mut passed_over = Vec::new();
    for (name, value) in variables {
        let flag = name[PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        if known.get_arguments().any(|argument| argument.get_long() == Some(flag.as_str())) {
            let mut argument = OsString::from(format!("--{flag}="));
            argument.push(value);
            arguments.push(argument);
            continue;
        }
        let settings = known.get_arguments().filter_map(|argument| argument.get_long());
        if let Some(meant) = near_miss(&flag, settings.chain(["config", "key"])) {
            let meant = meant.to_ascii_uppercase().replace('-', "_");
            return Err(format!(
                "the environment variable {name} is no setting; {PREFIX}{meant} is one: correct the name, or remove the variable"
            ));
        }
        passed_over.push(name);
    }
    passed_over.sort();
    let matches = AsFlags::command().try_get_matches_from(arguments);
    let parsed = matches.and_then(|matches| AsFlags::from_arg_matches(&matches));
    parsed.map(|parsed| (parsed.settings, passed_over)).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        format!("the environment variables {PREFIX}…: {first}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_size::ByteSize;
    use crate::settings::DurabilityMode;
    use shardlake_model::LimitScale;

    fn merge(
        flags: &Settings,
        config: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Merged, String> {
        Layers::read(flags, config, environment)?.merged()
    }

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn flags_win_over_variables_over_the_file() {
        let file =
            file("durability = \"memory\"\ncache-size = \"1MiB\"\nclock-skew = 5\nlisten = \"[::1]:0\"");
        let flags = Settings { durability: Some(DurabilityMode::Sync), ..Settings::default() };
        let environment = variables(&[
            ("SHARDLAKE_DURABILITY", "async"),
            ("SHARDLAKE_CACHE_SIZE", "2MiB"),
            ("SHARDLAKE_TLS_NAME", "a,b"),
            ("PATH", "/bin"),
        ]);
        let merged = merge(&flags, Some(file.path()), environment).expect("valid").settings;
        assert_eq!(merged.durability, Some(DurabilityMode::Sync));
        assert_eq!(merged.cache_size, Some(ByteSize(2 << 20)));
        assert_eq!(merged.clock_skew, Some(5));
        assert_eq!(merged.listen, Some(vec!["[::1]:0".to_owned()]));
        assert_eq!(merged.tls_name, Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_scale_of_limits_is_said_everywhere_as_people_write_it() {
        let nothing = Settings::default();
        let milli = LimitScale::new(1, 1000);
        for text in [
            "limits-scale = 0.001",
            "limits-scale = \"1/1000\"",
            "[limits]\nscale = 0.001",
            "limits.scale = 0.001",
        ] {
            let merged = merge(&nothing, Some(file(text).path()), []).expect(text).settings;
            assert_eq!(merged.limits_scale, milli, "{text}");
        }
        let merged = merge(&nothing, None, variables(&[("SHARDLAKE_LIMITS_SCALE", "0.001")]));
        assert_eq!(merged.expect("valid").settings.limits_scale, milli);
        for (text, words) in [
            ("limits-scale = 2", "is no scale"),
            ("limits.size = 1", "unknown field `size`"),
            ("limits-scale = 1\nlimits.scale = 1", "one setting"),
        ] {
            let message = merge(&nothing, Some(file(text).path()), []).expect_err(text);
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn variables_of_others_are_passed_over_and_misspelled_ones_are_not() {
        let merged = |names: &[&str]| {
            let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x")).collect();
            merge(&Settings::default(), None, variables(&pairs)).map(|merged| merged.passed_over)
        };
        assert_eq!(
            merged(&["SHARDLAKE_ROLE", "SHARDLAKE_CLUSTER"]),
            Ok(vec!["SHARDLAKE_CLUSTER".into(), "SHARDLAKE_ROLE".into()])
        );
        let of_services = [
            "SHARDLAKE_SERVICE_HOST",
            "SHARDLAKE_SERVICE_PORT",
            "SHARDLAKE_SERVICE_PORT_HTTP",
            "SHARDLAKE_PORT",
            "SHARDLAKE_PORT_8081_TCP",
            "SHARDLAKE_PORT_8081_TCP_PROTO",
            "SHARDLAKE_DATA_PORT_1_UDP_ADDR",
            "SHARDLAKE_TLS_PORT",
        ];
        assert_eq!(merged(&of_services), Ok(vec![]));
        for name in [
            "SHARDLAKE_DATADIR",
            "SHARDLAKE_DURABILTY",
            "SHARDLAKE_TLS_NAMES",
            "SHARDLAKE_KEYFILE",
            "SHARDLAKE_CONFIGS",
        ] {
            assert!(merged(&[name]).expect_err(name).contains(name));
        }
    }

    #[test]
    fn flags_win_over_emulator_variables_over_our_own() {
        let environment = variables(&[
            ("SHARDLAKE_EMULATOR", "true"),
            ("SHARDLAKE_DATA_DIR", "/image"),
            ("DATA_PATH", "/user"),
            ("LOG_LEVEL", "debug"),
            ("GATEWAY_PUBLIC_ENDPOINT", "cosmos"),
            ("AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT", "4.0"),
        ]);
        let effective = |flags: &Settings, environment: &[(OsString, OsString)]| {
            let mut settings = merge(flags, None, environment.iter().cloned())?.settings;
            emulate(&mut settings, flags, &[], environment)?;
            Ok::<_, String>(settings)
        };
        let flags = Settings { log_level: Some("warn".to_owned()), ..Settings::default() };
        let settings = effective(&flags, &environment).expect("valid");
        assert_eq!(settings.data_dir.as_deref(), Some(Path::new("/user")));
        assert_eq!(settings.log_level.as_deref(), Some("warn"));
        assert_eq!(settings.tls_name, Some(vec!["cosmos".to_owned()]));
        assert_eq!(settings.mongo_listen, Some(vec![MONGO_LISTEN.to_owned()]));
        let without = effective(&Settings::default(), &environment[1..]).expect("valid");
        assert_eq!((without.data_dir.as_deref(), without.emulated), (Some(Path::new("/image")), None));
        let pem = Settings { emulator_pem: Some("x".into()), ..Settings::default() };
        assert!(effective(&pem, &[]).expect_err("no emulator").contains("--emulator"));
    }

    #[test]
    fn unknown_names_and_wrong_values_are_refused_by_name() {
        let nothing = Settings::default();
        let wrong = [
            (merge(&nothing, None, variables(&[("SHARDLAKE_DATADIR", "x")])), "SHARDLAKE_DATADIR"),
            (merge(&nothing, None, variables(&[("SHARDLAKE_DURABILITY", "x")])), "durability"),
            (merge(&nothing, Some(file("a = 1").path()), []), "unknown setting `a`"),
            (
                merge(&nothing, Some(file("durabilty = \"sync\"").path()), []),
                "line 1: unknown setting `durabilty`: did you mean `durability`?",
            ),
            (merge(&nothing, Some(file("\n\nclock-skew = \"x\"").path()), []), "line 3"),
            (merge(&nothing, Some(Path::new("/nowhere/at.all")), []), "/nowhere/at.all"),
            (merge(&nothing, None, variables(&[("SHARDLAKE_CONFIG", "/nowhere/else")])), "/nowhere/else"),
        ];
        for (outcome, words) in wrong {
            let message = outcome.expect_err(words);
            assert!(message.contains(words) && !message.contains('\n'), "{message}");
        }
    }
}
