//! Errors of wrong command lines, with tips that help.
//!
//! The parser suggests the most similar flag, however different it is: for `--port`, `--explorer`.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use shardlake_stdx::near_miss;

const PORT: &str = "the port is a part of an address, such as --listen 127.0.0.1:9000; --port is an argument of an emulator, for serve --emulator";

/// `demos` are names and descriptions, if the command is `demo`.
pub fn explained(mut error: clap::Error, demos: Option<Vec<(String, String)>>) -> clap::Error {
    match (error.kind(), demos) {
        (ErrorKind::UnknownArgument, _) => explain_unknown(&mut error),
        (ErrorKind::MissingRequiredArgument, Some(demos)) => return which_demo(&demos),
        _ => {}
    }
    error
}

fn explain_unknown(error: &mut clap::Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.trim_start_matches('-').to_owned()),
        _ => None,
    };
    let (Some(given), suggested) = (text(ContextKind::InvalidArg), text(ContextKind::SuggestedArg)) else {
        return;
    };
    if suggested.is_none_or(|suggested| is_meant(&given, &suggested)) && given != "port" {
        return;
    }
    // The usage is that of the suggestion.
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Usage);
    if given == "port" {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![PORT.into()]));
    }
}

/// Whether one is a misspelling or the beginning of the other.
fn is_meant(given: &str, suggested: &str) -> bool {
    near_miss(given, [suggested]).is_some() || given.len() > 2 && suggested.starts_with(given)
}

fn which_demo(demos: &[(String, String)]) -> clap::Error {
    let mut text = "`shardlake demo` needs the name of one:\n\n".to_owned();
    for (name, description) in demos {
        text += &format!("  shardlake demo {name:<10}  {description}\n");
    }
    text += "\n`shardlake demo --help` lists the options\n";
    Command::new("shardlake").error(ErrorKind::MissingRequiredArgument, text)
}
