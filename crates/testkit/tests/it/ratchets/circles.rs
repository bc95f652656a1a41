//! Circles: files, and top modules, of a crate that import one another.
//!
//! A file in a circle cannot be understood, moved or replaced without the others. Names are
//! followed through `use` to the file that defines them, so that re-exports of a parent hide no
//! circle; a re-export itself is no import.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::Ratchet;
use super::sources::{Source, Sources};

type Path = Vec<String>;
type Edges = BTreeMap<String, BTreeSet<String>>;

static USE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*(pub(?:\([^)]*\))?[ \t]+)?use[ \t]+([^;]+);").unwrap());
static INLINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w:])((?:\w+::)+\w+)").unwrap());
static DEFINED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(\w+)").unwrap()
});

pub fn measure(sources: &Sources) -> Vec<Ratchet> {
    let about = "Files that import one another in a circle, by crate.";
    let mut by_file = Ratchet::most("files_in_circles", about, 0.0);
    let about = "Top modules that import one another in a circle, by crate.";
    let mut by_module = Ratchet::most("modules_in_circles", about, 0.0);
    for (name, sources) in sources.production() {
        let tree = Tree::new(&sources);
        let files = tree.imports();
        for (ratchet, edges) in [(&mut by_module, of_top_modules(&files)), (&mut by_file, files)] {
            let circles = circles(&edges);
            let number: usize = circles.iter().map(BTreeSet::len).sum();
            let places = circles.iter().map(|circle| circle.iter().cloned().collect::<Vec<_>>().join(" "));
            ratchet.add(name, number as f64, places.collect::<Vec<_>>().join("; "));
        }
    }
    vec![by_file, by_module]
}

/// The modules of one crate: the path of each, and the names that each one has.
struct Tree {
    modules: BTreeMap<Path, Module>,
}

struct Module {
    file: String,
    defined: BTreeSet<String>,
    /// Names that `use` brings, and their full paths.
    aliases: BTreeMap<String, Path>,
    /// Modules that are imported with a glob.
    globs: Vec<Path>,
    /// Paths that the file names outside re-exports.
    named: BTreeSet<Path>,
}

impl Tree {
    fn new(sources: &[&Source]) -> Tree {
        let files = sources.iter().filter_map(|source| Some((source.file.as_deref()?, source)));
        let paths: BTreeMap<Path, (&str, &str)> =
            files.map(|(file, source)| (module_path(file), (file, source.code.as_str()))).collect();
        let known: BTreeSet<&Path> = paths.keys().collect();
        let modules =
            paths.iter().map(|(path, (file, code))| (path.clone(), Module::new(path, file, code, &known)));
        Tree { modules: modules.collect() }
    }

    /// By file: those that it names. Roots are left out: they hold the others together.
    fn imports(&self) -> Edges {
        let imports = self.modules.values().filter(|module| !is_root(&module.file)).map(|module| {
            let files = module.named.iter().filter_map(|path| self.file_of(path, 0));
            let others = files.filter(|file| *file != module.file && !is_root(file));
            (module.file.clone(), others.map(str::to_owned).collect())
        });
        imports.collect()
    }

    /// The file that defines the last name of a path from the crate's root, as far as the path can
    /// be followed.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&str> {
        let (mut at, mut module) = (Path::new(), self.modules.get(&Path::new())?);
        for (number, name) in path.iter().enumerate() {
            at.push(name.clone());
            if let Some(below) = self.modules.get(&at) {
                module = below;
                continue;
            }
            if module.defined.contains(name) || depth > 8 {
                return Some(&module.file);
            }
            let rest = &path[number + 1..];
            if let Some(target) = module.aliases.get(name) {
                return self.file_of(&[target, rest].concat(), depth + 1);
            }
            let through_globs = module.globs.iter().find_map(|glob| {
                let shown = self.modules.get(glob)?;
                let has = shown.defined.contains(name) || shown.aliases.contains_key(name);
                has.then(|| self.file_of(&[glob, &path[number..]].concat(), depth + 1))?
            });
            return through_globs.or(Some(&module.file));
        }
        Some(&module.file)
    }
}

impl Module {
    fn new(path: &Path, file: &str, code: &str, known: &BTreeSet<&Path>) -> Module {
        let defined = DEFINED.captures_iter(code).map(|found| found[1].to_owned()).collect();
        let mut module = Module {
            file: file.to_owned(),
            defined,
            aliases: BTreeMap::new(),
            globs: Vec::new(),
            named: BTreeSet::new(),
        };
        for statement in USE.captures_iter(code) {
            let (mut expanded, is_export) = (Vec::new(), statement.get(1).is_some());
            expand(&statement[2], &mut Path::new(), &mut expanded);
            for (target, name) in expanded {
                let Some(target) = absolute(&target, path, known) else { continue };
                if name == "*" {
                    module.globs.push(target.clone());
                } else {
                    module.aliases.insert(name, target.clone());
                }
                if !is_export {
                    module.named.insert(target);
                }
            }
        }
        let rest = USE.replace_all(code, "");
        for found in INLINE.captures_iter(&rest) {
            let words: Path = found[1].split("::").map(str::to_owned).collect();
            module.named.extend(absolute(&words, path, known));
        }
        module
    }
}

/// The paths of a `use` statement, and the name that each one brings.
fn expand(text: &str, prefix: &mut Path, found: &mut Vec<(Path, String)>) {
    let text = text.trim();
    if let Some((head, list)) = text.split_once('{').filter(|(head, _)| !head.contains(',')) {
        let heads = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let length = prefix.len();
        prefix.extend(heads);
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        for entry in entries(list) {
            expand(entry, prefix, found);
        }
        prefix.truncate(length);
        return;
    }
    let (path, alias) =
        text.split_once(" as ").map_or((text, None), |(path, alias)| (path, Some(alias.trim())));
    let mut path: Path =
        prefix.iter().cloned().chain(path.split("::").map(|name| name.trim().to_owned())).collect();
    if path.last().is_some_and(|name| name == "self" || name.is_empty()) {
        path.pop();
    }
    let Some(last) = path.last().cloned() else { return };
    if last == "*" {
        path.pop();
    }
    found.push((path, alias.map_or(last, str::to_owned)));
}

/// The entries of a list, those in braces whole.
pub fn entries(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut entries) = (0, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' | b'(' | b'[' | b'<' => depth += 1,
            b'>' if list[..at].ends_with(['-', '=']) => {}
            b'}' | b')' | b']' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                entries.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    entries.push(list[start..].trim());
    entries.retain(|entry| !entry.is_empty());
    entries
}

/// A path from the root of the crate; `None` for names of other crates, and for names that a file
/// has of its own.
fn absolute(words: &[String], module: &Path, known: &BTreeSet<&Path>) -> Option<Path> {
    let (first, rest) = words.split_first()?;
    let base: Path = match first.as_str() {
        "crate" => Path::new(),
        "self" => module.clone(),
        "super" => {
            let ups = words.iter().take_while(|word| *word == "super").count();
            let base = module.get(..module.len().checked_sub(ups)?)?.to_vec();
            return Some([&base, &words[ups..]].concat());
        }
        _ => {
            let child = [module.as_slice(), std::slice::from_ref(first)].concat();
            return known.contains(&child).then(|| [&child, rest].concat());
        }
    };
    Some([&base, rest].concat())
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`; a root is the module without a name.
fn module_path(file: &str) -> Path {
    if is_root(file) {
        return Path::new();
    }
    let file = file.trim_end_matches(".rs");
    file.trim_end_matches("/mod").split('/').map(str::to_owned).collect()
}

fn is_root(file: &str) -> bool {
    matches!(file, "lib.rs" | "main.rs")
}

/// The imports of files, between top modules.
fn of_top_modules(files: &Edges) -> Edges {
    let top = |file: &str| file.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
    let mut edges = Edges::new();
    for (file, imported) in files {
        let own = top(file);
        let others = imported.iter().map(|other| top(other)).filter(|other| *other != own);
        edges.entry(own.clone()).or_default().extend(others);
    }
    edges
}

/// Sets of names that all reach one another, of two or more.
fn circles(edges: &Edges) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|name| (name, reached_from(name, edges))).collect();
    let circle = |name: &String| -> BTreeSet<String> {
        let others = reached[name].iter();
        let others = others.filter(|other| reached.get(*other).is_some_and(|of| of.contains(name)));
        others.map(|other| (*other).clone()).collect()
    };
    edges.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

fn reached_from<'e>(name: &String, edges: &'e Edges) -> BTreeSet<&'e String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = edges[name].iter().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(edges.get(next).into_iter().flatten());
        }
    }
    reached
}

#[test]
fn circles_are_found_through_re_exports() {
    let sources: Vec<Source> = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{Bee, Wax as Candle};\nstruct Root;"),
        ("a.rs", "use crate::{Candle, c::Sea};\nstruct X;"),
        ("b/mod.rs", "mod inner;\npub use inner::*;\nfn f() { crate::c::go() }"),
        ("b/inner.rs", "pub struct Bee;\npub struct Wax;\nfn f() { super::f() }"),
        ("c.rs", "use crate::a;\nuse bytes::Bytes;\nstruct Sea;\nfn go() -> crate::Bee {}"),
        ("d.rs", "use crate::a::X;\nuse crate::Root;"),
    ]
    .into_iter()
    .map(|(file, text)| Source::new(&format!("crates/a/src/{file}"), Some(file), text))
    .collect();
    let edges = Tree::new(&sources.iter().collect::<Vec<_>>()).imports();
    assert_eq!(
        format!("{edges:?}"),
        r#"{"a.rs": {"b/inner.rs", "c.rs"}, "b/inner.rs": {"b/mod.rs"}, "b/mod.rs": {"c.rs"}, "#.to_owned()
            + r#""c.rs": {"a.rs", "b/inner.rs"}, "d.rs": {"a.rs"}}"#
    );
    assert_eq!(format!("{:?}", circles(&edges)), r#"{{"a.rs", "b/inner.rs", "b/mod.rs", "c.rs"}}"#);
    assert_eq!(format!("{:?}", circles(&of_top_modules(&edges))), r#"{{"a", "b", "c"}}"#);
    assert_eq!(entries("a::{b, c}, Fn(d, e) -> f, g"), ["a::{b, c}", "Fn(d, e) -> f", "g"]);
}
