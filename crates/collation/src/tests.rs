//! Orders of texts by languages and options, and the sort keys that go with them.

use super::*;
use proptest::prelude::*;

fn collation(locale: &str, change: impl FnOnce(&mut Rules)) -> Collation {
    let mut rules = Rules::of_locale(locale);
    change(&mut rules);
    Collation::new(rules).expect("the locale is known")
}

fn sorted<'t>(collation: &Collation, texts: &[&'t str]) -> Vec<&'t str> {
    let mut texts = texts.to_vec();
    texts.sort_by(|left, right| collation.compare(left, right));
    texts
}

#[test]
fn strengths_tell_letters_accents_and_cases_apart() {
    let of = |strength: u8| collation("en", |rules| rules.strength = strength);
    assert_eq!(of(1).compare("a", "Á"), Ordering::Equal);
    assert_eq!(of(2).compare("a", "A"), Ordering::Equal);
    assert_eq!(of(2).compare("a", "á"), Ordering::Less);
    assert_eq!(of(3).compare("a", "A"), Ordering::Less);
    let level = collation("en", |rules| (rules.strength, rules.case_level) = (1, true));
    assert_eq!(level.compare("a", "á"), Ordering::Equal);
    assert_eq!(level.compare("a", "A"), Ordering::Less);
}

#[test]
fn options_change_the_order() {
    let upper = collation("en", |rules| rules.case_first = CaseFirst::Upper);
    assert_eq!(sorted(&upper, &["a", "A", "b", "B"]), ["A", "a", "B", "b"]);
    let digits = collation("en", |rules| rules.numeric_ordering = true);
    assert_eq!(sorted(&digits, &["a10", "a9", "a100"]), ["a9", "a10", "a100"]);
    let shifted = collation("en", |rules| rules.shifted = true);
    assert_eq!(shifted.compare("black-bird", "black bird"), Ordering::Equal);
    let spaces = collation("en", |rules| (rules.shifted, rules.max_variable) = (true, MaxVariable::Space));
    assert_ne!(spaces.compare("black-bird", "black bird"), Ordering::Equal);
    assert_eq!(spaces.compare("blackbird", "black bird"), Ordering::Equal);
}

#[test]
fn accents_are_compared_from_the_end_where_they_are_backwards() {
    let words = ["cote", "coté", "côte", "côté"];
    let forwards = ["cote", "coté", "côte", "côté"];
    let backwards = ["cote", "côte", "coté", "côté"];
    assert_eq!(sorted(&collation("fr", |_| {}), &words), forwards);
    assert_eq!(sorted(&collation("fr", |rules| rules.backwards = true), &words), backwards);
    assert_eq!(sorted(&collation("fr_CA", |_| {}), &words), backwards);
    assert_eq!(sorted(&collation("fr_CA", |rules| rules.backwards = false), &words), forwards);
    let mut rules = Rules::of_locale("sv");
    rules.backwards = true;
    assert!(Collation::new(rules).is_err());
}

#[test]
fn languages_have_orders_of_their_own() {
    assert_eq!(sorted(&collation("sv", |_| {}), &["ö", "z", "o"]), ["o", "z", "ö"]);
    assert_eq!(sorted(&collation("de", |_| {}), &["ö", "z", "o"]), ["o", "ö", "z"]);
    let phonebook = collation("de@collation=phonebook", |_| {});
    assert_eq!(sorted(&phonebook, &["Of", "Öd", "Od"]), ["Od", "Öd", "Of"]);
    assert_eq!(collation("en_US_POSIX", |_| {}).compare("B", "a"), Ordering::Less);
}

#[test]
fn rules_are_stored_as_text() {
    for text in ["en/2---------", "x"] {
        assert_eq!(Rules::parse(text), None, "{text}");
    }
    let mut rules = Rules::of_locale("de_AT@collation=phonebook");
    (rules.strength, rules.case_first, rules.backwards) = (1, CaseFirst::Lower, true);
    assert_eq!(Rules::parse(&rules.text()), Some(rules));
}

#[test]
fn the_version_is_that_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock: toml::Table =
        std::fs::read_to_string(path).expect("the lock file is there").parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    // Sort keys depend on tables and code. With another version of one of them, all stored sort keys are made anew.
    for name in ["icu_collator", "icu_collator_data", "icu_normalizer", "icu_normalizer_data"] {
        let package = packages.iter().find(|package| package["name"].as_str() == Some(name));
        let version = package.and_then(|package| package["version"].as_str()).expect(name);
        assert_eq!(DATA_VERSION, format!("icu4x-{version}"), "{name}");
    }
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let locale = prop::sample::select(vec!["en", "fr_CA", "de", "sv", "ja", "zh", "th", "da", "tr", "ko"]);
    (locale, 1u8..=5, any::<[bool; 4]>(), 0..3usize).prop_map(|(locale, strength, flags, first)| {
        let mut rules = Rules::of_locale(locale);
        rules.strength = strength;
        rules.case_level = flags[0];
        rules.numeric_ordering = flags[1];
        rules.shifted = flags[2];
        rules.max_variable = if flags[3] { MaxVariable::Space } else { MaxVariable::Punctuation };
        rules.case_first = [CaseFirst::Off, CaseFirst::Upper, CaseFirst::Lower][first];
        rules
    })
}

proptest! {
    #[test]
    fn sort_keys_have_the_order_of_texts(
        rules in any_rules(),
        left in "[a-cA-Cäé0-2 \\-ßæあア一]{0,6}|\\PC{0,6}",
        right in "[a-cA-Cäé0-2 \\-ßæあア一]{0,6}|\\PC{0,6}",
    ) {
        let collation = Collation::new(rules).expect("the locale is known");
        let by_keys = collation.sort_key(&left).cmp(&collation.sort_key(&right));
        prop_assert_eq!(collation.compare(&left, &right), by_keys);
        prop_assert_eq!(collation.sort_text(&left).cmp(&collation.sort_text(&right)), by_keys);
    }
}
