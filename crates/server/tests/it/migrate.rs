//! Accounts that are moved between a local disk and an object store: nothing is lost, and only one place is ever served.

use std::fs;
use std::path::Path;

use serde_json::Value;
use shardlake_testkit::ServerProcess;

use crate::backup_support::{complaint, endpoint, everything, fill, printed, text_of, verify};
use crate::backups::make_everything;
use crate::stores::Account;
use crate::support::{PATIENCE, assert_healthy, ca_of, command, on_disk, refused};

fn serve(account: &Account, node: &str) -> ServerProcess {
    account.node(node, &[]).start()
}

fn refused_at(data: &Path, more: &[&str]) -> String {
    refused(
        command(&["serve", "--listen=127.0.0.1:0", "--log-level=error"])
            .arg("--data-dir")
            .arg(data)
            .args(more),
    )
}

#[test]
fn an_account_is_moved_to_a_store_and_back_with_a_copy_made_ahead() {
    let account = Account::new();
    let (data, url) = (account.path("data"), account.url());
    let mut server = on_disk().data_dir(&data).argument("--shards=2").start();
    make_everything(&server.client());
    let authority = ca_of(&server);
    let ahead =
        ["migrate", "--online", "--endpoint", &endpoint(&server), "--from", text_of(&data), "--to", &url];
    let said = printed(&ahead, 0);
    assert!(said.contains("without --online"), "{said}");
    // The copy is not complete, and the account is still in its old place.
    let text = account.refused("early");
    assert!(text.contains("cut off"), "{text}");
    fill(&server.client(), "c", 1000..1020, 3000);
    let _deleted = server.client().delete_item("db", "c", &serde_json::json!([4]), "4").expect_status(204);
    let in_use = complaint(&["migrate", "--from", text_of(&data), "--to", &url]);
    assert!(in_use.contains("in use by another process"), "{in_use}");
    let original = everything(&server.client());
    server.kill();

    let other = complaint(&["migrate", "--from", text_of(&account.path("none")), "--to", &url]);
    assert!(other.contains("does not exist"), "{other}");
    let said = printed(&["migrate", "--from", text_of(&data), "--to", &url], 0);
    // Little was left to be written.
    let numbers: Vec<u64> =
        said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let rows =
        said.split_once(": ").unwrap().1.split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap();
    assert!(numbers.iter().any(|number| *number > 0 && *number * 2 < rows), "{said}");
    let text = refused_at(&data, &[]);
    assert!(text.contains("was moved to") && text.contains(&url), "{text}");
    verify(&[&url]);
    let mut moved = serve(&account, "node");
    assert_eq!(everything(&moved.client()), original);
    assert_eq!(ca_of(&moved), authority, "clients go on with the authority that they know");
    fill(&moved.client(), "c", 2000..2010, 100);
    assert_healthy(&moved);
    let original = everything(&moved.client());
    let again = complaint(&["migrate", "--from", text_of(&data), "--to", &url]);
    assert!(again.contains("is not empty"), "{again}");
    let back = account.path("back");
    let in_use = complaint(&["migrate", "--from", &url, "--to", text_of(&back)]);
    assert!(in_use.contains("a server has the account"), "{in_use}");
    assert!(moved.terminate(PATIENCE).success());

    printed(&["migrate", "--from", &url, "--to", text_of(&back)], 0);
    let text = account.refused("node");
    assert!(text.contains("was moved to") && text.contains("back"), "{text}");
    assert!(complaint(&["verify", &url]).contains("was moved to"));
    verify(&[text_of(&back)]);
    let server = on_disk().data_dir(&back).start();
    assert_eq!(everything(&server.client()), original);
    assert_eq!(ca_of(&server), authority);
    fill(&server.client(), "c", 3000..3010, 100);
    assert_healthy(&server);
}

/// Between the two marks servers refuse the account, and the same command completes the move.
#[test]
fn a_move_that_is_cut_off_goes_on_and_is_served_nowhere_until_then() {
    let account = Account::new();
    let (data, url) = (account.path("data"), account.url());
    let mut server = on_disk().data_dir(&data).start();
    make_everything(&server.client());
    let original = everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    let to_store = ["migrate", "--from", text_of(&data), "--to", &url];
    printed(&to_store, 0);
    // The state of a command that was killed after its first mark.
    let remembered: Value =
        serde_json::from_str(&fs::read_to_string(account.path("account/account.json")).unwrap()).unwrap();
    let words = format!("move of the account {}\n", remembered["account"].as_str().unwrap());
    fs::write(account.path("account/RESTORING"), &words).unwrap();
    assert!(account.refused("node").contains("cut off"));
    assert!(refused_at(&data, &[]).contains("was moved to"));
    let said = printed(&to_store, 0);
    assert!(said.contains("of which 0 were written and 0 removed"), "{said}");
    // An unfinished move of another account is not continued.
    fs::write(account.path("account/RESTORING"), "move of the account of somebody else\n").unwrap();
    assert!(complaint(&to_store).contains("cut off"));
    fs::remove_file(account.path("account/RESTORING")).unwrap();
    let mut moved = serve(&account, "node");
    assert_eq!(everything(&moved.client()), original);
    assert!(moved.terminate(PATIENCE).success());

    let back = account.path("back");
    let to_disk = ["migrate", "--from", &url, "--to", text_of(&back)];
    printed(&to_disk, 0);
    fs::write(back.join("RESTORING"), &words).unwrap();
    assert!(refused_at(&back, &[]).contains("cut off"));
    assert!(account.refused("node").contains("was moved to"));
    printed(&to_disk, 0);
    let server = on_disk().data_dir(&back).start();
    assert_eq!(everything(&server.client()), original);
    assert_healthy(&server);
    // Places of one kind, and something else in the way.
    assert!(complaint(&["migrate", "--from", &url, "--to", &url]).contains("one of --from and --to"));
    let full = account.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("x"), "x").unwrap();
    let text = complaint(&["migrate", "--from", &url, "--to", text_of(&full)]);
    assert!(text.contains("was moved to") || text.contains("is not empty"), "{text}");
}
