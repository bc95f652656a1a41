//! The explorer's files: those in the program, or in a debug build those of the folder as it is now.
//!
//! A *bundle* is all files of one build. Its build is a hash over their names and contents, so a changed file changes the path of all
//! of them, and browser caches are never out of date. `index.html` has a mark where the build is filled in. A file is compressed
//! once, when a browser first accepts it compressed, and cached: the cache is bounded by the number of files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

include!(concat!(env!("OUT_DIR"), "/explorer_files.rs"));

/// Debug builds read it, so that a changed page is seen without compiling.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../explorer/dist");
const BUILD_MARK: &str = "__BUILD__";
const BUILD_BYTES: usize = 8;

#[derive(Debug)]
pub struct Assets {
    embedded: Arc<Bundle>,
}

#[derive(Debug)]
pub struct Bundle {
    build: String,
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
pub struct File {
    pub kind: &'static str,
    /// Whether it is text, which compresses.
    is_text: bool,
    pub plain: Bytes,
    gzip: OnceLock<Option<Bytes>>,
}

impl Assets {
    pub fn new() -> Assets {
        let files = EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), Cow::Borrowed(*bytes)));
        Assets { embedded: Arc::new(Bundle::of(files.collect())) }
    }

    pub fn bundle(&self) -> Arc<Bundle> {
        let of_folder = || {
            let mut files = BTreeMap::new();
            read(Path::new(FOLDER), "", &mut files).ok()?;
            Some(Arc::new(Bundle::of(files)))
        };
        let changed = if cfg!(debug_assertions) { of_folder() } else { None };
        changed.unwrap_or_else(|| self.embedded.clone())
    }
}

impl Bundle {
    fn of(files: BTreeMap<String, Cow<'static, [u8]>>) -> Bundle {
        let mut hash = Sha256::new();
        for (name, bytes) in &files {
            // Lengths separate names and contents, so that bytes cannot move from one to the next.
            for part in [name.as_bytes(), bytes.as_ref()] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let build: String = hash.finalize()[..BUILD_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        let files = files.into_iter().map(|(name, bytes)| {
            let file = File::of(&name, bytes, &build);
            (name, file)
        });
        Bundle { files: files.collect(), build }
    }

    pub fn build(&self) -> &str {
        &self.build
    }

    /// By its name in the folder, such as `assets/main.js`.
    pub fn file(&self, name: &str) -> Option<&File> {
        self.files.get(name)
    }
}

impl File {
    fn of(name: &str, bytes: Cow<'static, [u8]>, build: &str) -> File {
        let (kind, is_text) = kind_of(name);
        let plain = match bytes {
            bytes if name.ends_with(".html") => {
                Bytes::from(String::from_utf8_lossy(&bytes).replace(BUILD_MARK, build))
            }
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        File { kind, is_text, plain, gzip: OnceLock::new() }
    }

    /// `None` where that saves nothing.
    pub fn gzip(&self) -> Option<Bytes> {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&self.plain).ok()?;
            let bytes = encoder.finish().ok()?;
            (bytes.len() < self.plain.len()).then(|| Bytes::from(bytes))
        };
        self.gzip.get_or_init(|| if self.is_text { compress() } else { None }).clone()
    }
}

/// The type of a file by its ending, and whether it is text.
fn kind_of(name: &str) -> (&'static str, bool) {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => ("text/html; charset=utf-8", true),
        "js" | "mjs" => ("text/javascript; charset=utf-8", true),
        "css" => ("text/css; charset=utf-8", true),
        "svg" => ("image/svg+xml", true),
        "json" => ("application/json", true),
        "txt" => ("text/plain; charset=utf-8", true),
        "png" => ("image/png", false),
        "ico" => ("image/x-icon", false),
        _ => ("application/octet-stream", false),
    }
}

fn read(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Cow<'static, [u8]>>,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, Cow::Owned(std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(files: &[(&str, &'static str)]) -> Bundle {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), Cow::Borrowed(text.as_bytes())));
        Bundle::of(files.collect())
    }

    #[test]
    fn the_build_is_of_names_and_contents_and_goes_into_the_page() {
        let one = bundle(&[("index.html", "<a __BUILD__ b __BUILD__>"), ("assets/a.js", "1")]);
        let page = String::from_utf8(one.file("index.html").expect("there").plain.to_vec()).expect("text");
        assert_eq!(page, format!("<a {build} b {build}>", build = one.build()));
        for other in [
            bundle(&[("index.html", "<a __BUILD__ b __BUILD__>"), ("assets/a.js", "2")]),
            bundle(&[("index.html", "<a __BUILD__ b __BUILD__>"), ("assets/b.js", "1")]),
        ] {
            assert_ne!(one.build(), other.build());
        }
    }

    #[test]
    fn text_is_compressed_where_that_saves_something() {
        let text: &'static str = "body { color: red; } ".repeat(100).leak();
        let bundle = bundle(&[("assets/a.css", text), ("assets/b.js", "1"), ("assets/c.png", text)]);
        let gzip = |name| bundle.file(name).expect(name).gzip();
        let compressed = gzip("assets/a.css").expect("smaller");
        assert!(compressed.len() < text.len() / 10);
        assert_eq!(compressed[..2], [0x1f, 0x8b]);
        assert_eq!((gzip("assets/b.js"), gzip("assets/c.png")), (None, None));
    }

    #[test]
    fn the_program_has_a_page() {
        let page = Bundle::of(EMBEDDED.iter().map(|(n, b)| ((*n).to_owned(), Cow::Borrowed(*b))).collect());
        assert!(page.file("index.html").is_some(), "explorer/dist/index.html is committed");
    }
}
