//! Shell completions and manual pages, written from the definition of the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to complete in
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManualPages {
    /// Directory to write `shardlake.1` and a page for each command into; it must exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

impl Completions {
    /// Prints the script; a reader that closes the pipe early ends it.
    pub fn print(&self, mut command: Command, to: &mut dyn io::Write) -> Result<(), String> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        match to.write_all(&script) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("standard output cannot be written: {error}"))
            }
            _ => Ok(()),
        }
    }
}

impl ManualPages {
    pub fn write(&self, command: Command) -> Result<(), String> {
        write_pages(command, &self.to)
            .map_err(|error| format!("no manual pages in {}: {error}", self.to.display()))
    }
}

fn write_pages(command: Command, to: &Path) -> io::Result<()> {
    clap_mangen::generate_to(command, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn example() -> Command {
        let serve = Command::new("serve").about("Serve an account").arg(Arg::new("listen").long("listen"));
        Command::new("shardlake").about("A database").subcommand(serve)
    }

    #[test]
    fn each_shell_completes_commands_and_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            Completions { shell }.print(example(), &mut script).expect("a buffer takes it");
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("serve") && script.contains("listen"), "{shell}: {script}");
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let pages = ManualPages { to: directory.path().to_owned() };
        pages.write(example()).expect("the directory is there");
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
        assert!(page("shardlake.1").contains("A database"));
        assert!(page("shardlake-serve.1").contains("\\-\\-listen"));
        let missing = ManualPages { to: directory.path().join("no/such/directory") };
        let message = missing.write(example()).expect_err("the directory is not there");
        assert!(message.contains("no/such/directory"), "{message}");
    }
}
