//! The demo of a hot tenant: its findings, at any speed of the machine.

use crate::support::{Started, command, run};

/// The three numbers of a row of the comparison.
fn row(text: &str, name: &str) -> Vec<f64> {
    let line =
        text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no '{name}' in\n{text}"));
    let words = line[name.len()..].split_whitespace();
    words.filter_map(|word| word.replace(',', "").parse().ok()).collect()
}

#[test]
fn the_demo_finds_the_hot_partition_and_the_better_key_cures_it() {
    let output = command(&["demo", "hot-tenant", "--seconds", "2"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Tenant A is refused with 403: Partition key reached maximum size"), "{text}");
    let acts: Vec<&str> = text.split("── ").collect();
    let [tenant_key, more_throughput] = [acts[2], acts[3]];
    assert!(tenant_key.contains("did nothing wrong and are refused too"), "{text}");
    for act in [tenant_key, more_throughput] {
        assert!(act.contains("[\"D\"] has at least") && act.contains("A split does not help"), "{text}");
        assert!(act.contains("100 % of what one may: [\"A\"]"), "{text}");
    }
    assert!(!acts[5].contains("split does not help"), "{text}");
    let full = row(&text, "items refused: key is full");
    assert!(full[0] > 100.0 && full[2] == 0.0, "{text}");
    let throttled = row(&text, "requests answered 429");
    // The number of refusals depends on the speed of the machine. In two seconds the saved-up budget may be enough for all requests
    // at the higher throughput; the better key never refuses more.
    assert!(throttled[0] > throttled[1] && throttled[1] >= throttled[2], "{text}");
    assert_eq!(row(&text, "throughput paid for"), [1800.0, 3600.0, 1800.0]);
    assert_eq!(row(&text, "physical partitions"), [3.0, 4.0, 3.0], "{text}");
}

#[test]
fn the_demo_refuses_what_belongs_to_the_other() {
    let wrong = [
        &["demo", "hot-tenant", "--print"] as &[&str],
        &["demo", "webstore", "--seconds", "2"],
        &["demo", "webstore", "--browser"],
        &["demo", "hot-tenant", "--browser", "--data-dir", "elsewhere"],
    ];
    for arguments in wrong {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("hot-tenant"));
    }
}

#[test]
fn the_tour_is_served_from_memory_and_its_address_comes_first() {
    let tour = Started::new(&mut command(&["demo", "hot-tenant", "--browser", "--listen", "127.0.0.1:0"]));
    let explorer = tour.record["explorer"].as_str().unwrap();
    assert_eq!(tour.record["tour"], format!("{explorer}c/saas/by-tenant/partitions#tour=1"));
    assert_eq!(tour.record["durability"], "memory");
    let endpoint = tour.record["endpoints"][0].as_str().unwrap();
    let listed = run(&["partitions", "--endpoint", endpoint]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("by-tenant") && text.contains("by-tenant-and-user"), "{text}");
}
