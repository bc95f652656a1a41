//! `docs/settings.md`: its tables are generated from the help texts of the settings.
//!
//! The test fails when the page differs. `UPDATE=1 cargo test -p shardlake --lib settings_page` writes it anew. Text outside of the
//! two markers is written by hand.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory};

use crate::settings::Settings;

const BEGIN: &str = "<!-- generated from the help texts: begin -->\n";
const END: &str = "<!-- generated from the help texts: end -->\n";
const DEFAULT: &str = "[default: ";

#[derive(clap::Parser)]
struct AsFlags {
    #[command(flatten)]
    _settings: Settings,
}

#[test]
fn every_setting_has_help_and_the_page_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = std::fs::read_to_string(&path).expect("a file of the repository");
    let (head, rest) = page.split_once(BEGIN).expect("the page has its first marker");
    let (found, foot) = rest.split_once(END).expect("the page has its second marker");
    let generated = tables();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{head}{BEGIN}{generated}{END}{foot}");
        std::fs::write(&path, text).expect("the page can be written");
        return;
    }
    assert!(
        found == generated,
        "docs/settings.md is out of date: UPDATE=1 cargo test -p shardlake --lib settings_page"
    );
}

/// A table for each heading of the help, in the order in which the headings first appear.
fn tables() -> String {
    let command = AsFlags::command();
    let settings: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !matches!(argument.get_long(), None | Some("help")))
        .collect();
    assert!(settings.len() >= 48, "{} settings", settings.len());
    let mut headings: Vec<&str> = Vec::new();
    for setting in &settings {
        assert!(!setting.is_hide_set(), "{} is in no help", setting.get_id());
        let heading = setting.get_help_heading().expect("every setting has a heading");
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut text = String::new();
    for heading in headings {
        write!(text, "\n## {heading}\n\n| setting | default | |\n|---|---|---|\n").expect("a text grows");
        for setting in settings.iter().filter(|setting| setting.get_help_heading() == Some(heading)) {
            text.push_str(&row(setting));
        }
    }
    text.push('\n');
    text
}

fn row(setting: &Arg) -> String {
    let name = setting.get_long().expect("every setting is a flag");
    let short = setting.get_help().expect("every setting has help").to_string();
    let long = setting.get_long_help().unwrap_or_default().to_string();
    let (title, default) = split_default(&short);
    let is_switch = setting.get_num_args().is_some_and(|count| count.min_values() == 0);
    let default = default.unwrap_or_else(|| if is_switch { "off" } else { "none" }.to_owned());
    let more = long.strip_prefix(&short).unwrap_or_default().trim();
    let mut text = sentence(&title);
    if !more.is_empty() {
        write!(text, " {}", more.split_whitespace().collect::<Vec<_>>().join(" ")).expect("a text grows");
    }
    format!("| `{name}` | {} | {} |\n", cell(&default), cell(&text))
}

/// The text of a help without its default, and the default where it has one.
fn split_default(help: &str) -> (String, Option<String>) {
    let Some((before, rest)) = help.split_once(DEFAULT) else { return (help.to_owned(), None) };
    let (default, after) = rest.split_once(']').expect("a default ends with a bracket");
    let is_value = default != "none" && !default.contains(' ');
    let default = if is_value { format!("`{default}`") } else { default.to_owned() };
    (format!("{}{after}", before.trim_end()), Some(default))
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// A text for a cell of a table: flags are code, where the text does not have them as code already.
fn cell(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts: Vec<String> = parts
        .map(|(place, part)| if place % 2 == 0 { flags_as_code(part) } else { part.to_owned() })
        .collect();
    parts.join("`").replace('|', "\\|")
}

fn flags_as_code(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let end = word.find(|letter: char| !(letter == '-' || letter.is_ascii_lowercase()));
        let (flag, rest) = word.split_at(end.unwrap_or(word.len()));
        if word.starts_with("--") { format!("`{flag}`{rest}") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn defaults_and_flags_are_found() {
    assert_eq!(split_default("A size [default: 1MiB]"), ("A size".into(), Some("`1MiB`".into())));
    assert_eq!(split_default("A name [default: that of it]"), ("A name".into(), Some("that of it".into())));
    assert_eq!(split_default("A switch"), ("A switch".into(), None));
    assert_eq!(cell("needs --tls-key, see `a --b`"), "needs `--tls-key`, see `a --b`");
    assert_eq!(cell("a|b"), "a\\|b");
}
