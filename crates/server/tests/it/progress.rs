//! Progress of long commands: a bar at a terminal, nothing at all elsewhere within the first ten seconds.

use serde_json::json;

use crate::backup_support::{endpoint, printed};
use crate::support::{command, on_disk};
use crate::terminal::run_with_errors_on_a_terminal;

#[test]
fn long_commands_show_a_bar_at_a_terminal_and_nothing_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let server = on_disk().data_dir(path("data")).start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    for number in 0..50 {
        let item = json!({ "id": number.to_string(), "pk": number });
        let _item = client.create_item("d", "c", &json!([number]), &item).expect_status(201);
    }
    let endpoint = endpoint(&server);
    let (backups, others) = (path("backups"), path("others"));
    let shown = |title: &str, arguments: &[&str]| {
        let (output, seen) = run_with_errors_on_a_terminal(command(arguments));
        assert!(output.status.success(), "{title}: {output:?}: {seen}");
        assert!(seen.contains(&format!("{title} [")), "{title}: {seen:?}");
        // The bar is gone at the end: only the result stays.
        let last = seen.rsplit("\x1b[2K").next().unwrap();
        assert!(!last.contains(title), "{title}: {seen:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.contains('\x1b'), "{title}: {printed}");
    };
    shown("backup", &["backup", "create", "--to", &backups, "--endpoint", &endpoint]);
    shown("check", &["backup", "check", "--from", &backups]);
    shown("restore", &["backup", "restore", "--from", &backups, "--data-dir", &path("restored")]);
    shown("verify", &["verify", &path("restored")]);
    // `printed` takes no text on standard error.
    let _created = printed(&["backup", "create", "--to", &others, "--endpoint", &endpoint], 0);
    let _checked = printed(&["backup", "check", "--from", &others], 0);
    let _restored = printed(&["backup", "restore", "--from", &others, "--data-dir", &path("again")], 0);
    let _verified = printed(&["verify", &path("again")], 0);
    let _split = printed(&["split", "d/c", "0", "--at", "middle", "--endpoint", &endpoint], 0);
}
