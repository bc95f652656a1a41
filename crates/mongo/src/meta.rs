//! MongoDB metadata of containers and databases: indexes by name, validators, views.
//!
//! The metadata is a BSON document as base64url text. A container that another front end made has none; its metadata
//! follows from the definition.

use std::sync::Arc;

use shardlake_document::{bytes_of_url_text, url_text_of_bytes};
use shardlake_model::{Container, Database, KeyPath};
use shardlake_mql::kept_collation;
use shardlake_mql::write::{DocumentRules, RulesSource, ShardKey, Strictness};
use shardlake_mql::{Collation, Document, Scope, Value, document_of_collation};

use crate::failure::{Failure, Result};
use crate::uses::IndexUses;

/// A change of a collection's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    pub at_ms: u64,
    pub from: String,
    pub to: String,
}

/// Renames that are remembered; a stream that needs an earlier one fails because its history is lost.
const RENAMES_MAX: usize = 16;

/// How the name of a collection begins that `$out` fills before it takes the place of another.
pub const BESIDE: &str = "tmp.agg_out.";

/// Metadata of a collection.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// Made by MongoDB's API, or opened to it by a write.
    pub is_open: bool,
    /// Made by MongoDB's API: its indexing policy and its unique keys are those of its indexes.
    pub is_own: bool,
    /// As `listIndexes` shows them, without `_id_`.
    pub indexes: Vec<Document>,
    /// Names of prepared indexes that are to be unique when every document has claimed its values. Other prepared
    /// indexes stay so until `collMod` changes them.
    pub unfinished: Vec<String>,
    /// As `listCollections` shows them.
    pub options: Document,
    /// The pattern as it was declared, which distinguishes `1` from `"hashed"`.
    pub shard_key: Option<Document>,
    /// Its last renames, for change streams.
    pub renames: Vec<Rename>,
    /// Renames up to this time are not in the list; zero where all are.
    pub forgotten_ms: u64,
    /// From `options`: the default collation of operations.
    pub collation: Collation,
    /// A command's own: deleted when the command ends, or at the next start (`temporary.rs`).
    pub is_temporary: bool,
}

impl Meta {
    pub fn of(container: &Container) -> Result<Meta> {
        let Some(kept) = &container.kept else { return Ok(Meta::default()) };
        let kept = decoded(kept)?;
        let documents = |name: &str| match kept.get(name) {
            Some(Value::Array(items)) => {
                items.iter().filter_map(Value::as_document).map(|item| Document::clone(item)).collect()
            }
            _ => Vec::new(),
        };
        let options = kept.get("options").and_then(Value::as_document).map(|found| Document::clone(found));
        let options = options.unwrap_or_default();
        let shard_key = kept.get("shardKey").and_then(Value::as_document).map(|found| Document::clone(found));
        let collation = kept_collation(&options)?;
        let is_own = container.is_collection;
        let renames: Vec<Rename> = documents("renames").iter().filter_map(Rename::of).collect();
        let forgotten_ms = match kept.get("renamesForgotten").and_then(Value::to_i64_exact) {
            Some(time_ms) => u64::try_from(time_ms).unwrap_or_default(),
            // Earlier versions did not store the time: before a full list, renames may be missing.
            None if renames.len() >= RENAMES_MAX => renames[0].at_ms.saturating_sub(1),
            None => 0,
        };
        let indexes = documents("indexes");
        let unfinished = match kept.get("unfinished") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        debug_assert!(
            renames.is_sorted_by(|left: &Rename, right: &Rename| left.at_ms <= right.at_ms),
            "renames are kept in the order of their times"
        );
        Ok(Meta {
            is_open: true,
            is_own,
            indexes,
            unfinished,
            options,
            shard_key,
            renames,
            forgotten_ms,
            collation,
            is_temporary: flag(&kept, "temporary"),
        })
    }

    pub fn encoded(&self) -> String {
        let mut kept = Document::new();
        let indexes = self.indexes.iter().cloned().map(Value::document).collect();
        kept.push("indexes", Value::array(indexes));
        if !self.unfinished.is_empty() {
            kept.push("unfinished", Value::array(self.unfinished.iter().map(Value::string).collect()));
        }
        kept.push("options", Value::document(self.options.clone()));
        if let Some(shard_key) = &self.shard_key {
            kept.push("shardKey", Value::document(shard_key.clone()));
        }
        if !self.renames.is_empty() {
            let renames = self.renames.iter().map(|rename| Value::document(rename.document()));
            kept.push("renames", Value::array(renames.collect()));
            kept.push("renamesForgotten", Value::Long(self.forgotten_ms as i64));
        }
        if self.is_temporary {
            kept.push("temporary", Value::Bool(true));
        }
        url_text_of_bytes(&kept.to_bytes())
    }

    /// Removes dropped indexes from the unfinished ones.
    pub(crate) fn forget_gone(&mut self) {
        let Meta { indexes, unfinished, .. } = self;
        unfinished.retain(|name| indexes.iter().any(|index| index.value("name").as_str() == Some(name)));
        unfinished.sort_unstable();
        unfinished.dedup();
    }

    pub fn note_rename(&mut self, rename: Rename) {
        let last_ms = self.renames.last().map_or(0, |last| last.at_ms);
        assert!(rename.at_ms > last_ms, "renames of a collection have growing times");
        if self.renames.len() >= RENAMES_MAX {
            self.forgotten_ms = self.renames.remove(0).at_ms;
        }
        self.renames.push(rename);
    }

    /// The rules for documents of the collection.
    pub(crate) fn rules(&self, key_paths: &[KeyPath]) -> Result<DocumentRules> {
        let validator = self.options.get("validator").and_then(Value::as_document);
        Ok(DocumentRules::of(RulesSource {
            indexes: self.indexes.clone(),
            validator: validator.map(|validator| Document::clone(validator)).unwrap_or_default(),
            strictness: Strictness::of(&self.options),
            scope: Scope::with_collation(self.collation.clone()),
            shard_key: key_paths.iter().map(|path| path.0.clone()).collect(),
        })?)
    }

    /// The pattern of a sharded collection.
    pub fn shard_key_pattern(&self, key: &ShardKey) -> Option<Document> {
        if !key.is_sharded() {
            return None;
        }
        self.shard_key.clone().or_else(|| {
            let hashed = |path: &String| (path.as_str().into(), Value::string("hashed"));
            Some(key.paths().iter().map(hashed).collect())
        })
    }
}

impl Rename {
    fn of(document: &Document) -> Option<Rename> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        let at_ms = u64::try_from(document.get("at")?.to_i64_exact()?).ok()?;
        Some(Rename { at_ms, from: text("from")?, to: text("to")? })
    }

    fn document(&self) -> Document {
        let mut document = Document::one("at", self.at_ms as i64);
        document.push("from", Value::string(&self.from));
        document.push("to", Value::string(&self.to));
        document
    }
}

/// A view: another collection through a pipeline.
#[derive(Debug, Clone)]
pub struct View {
    pub name: String,
    pub on: String,
    pub pipeline: Vec<Value>,
    /// The collation of the view and of all operations on it.
    pub collation: Collation,
}

/// Metadata of a database.
#[derive(Debug, Clone, Default)]
pub struct DatabaseMeta {
    pub views: Vec<View>,
    /// Users as `createUser` made them, by the gateway's rules.
    pub users: Vec<Document>,
}

impl DatabaseMeta {
    pub fn of(database: &Database) -> Result<DatabaseMeta> {
        let Some(kept) = &database.kept else { return Ok(DatabaseMeta::default()) };
        let kept = decoded(kept)?;
        let mut meta = DatabaseMeta::default();
        if let Some(Value::Array(views)) = kept.get("views") {
            for view in views.iter().filter_map(Value::as_document) {
                let text = |name: &str| view.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let pipeline = view.get("pipeline").and_then(Value::as_array);
                let pipeline = pipeline.map_or_else(Vec::new, |stages| stages.to_vec());
                let collation = kept_collation(view)?;
                meta.views.push(View { name: text("name"), on: text("viewOn"), pipeline, collation });
            }
        }
        if let Some(Value::Array(users)) = kept.get("users") {
            meta.users =
                users.iter().filter_map(Value::as_document).map(|user| Document::clone(user)).collect();
        }
        Ok(meta)
    }

    pub fn encoded(&self) -> Option<String> {
        if self.views.is_empty() && self.users.is_empty() {
            return None;
        }
        let views = self.views.iter().map(|view| {
            let mut shown = Document::one("name", view.name.as_str());
            shown.push("viewOn", Value::string(&view.on));
            shown.push("pipeline", Value::array(view.pipeline.clone()));
            if let Some(collation) = document_of_collation(&view.collation) {
                shown.push("collation", Value::document(collation));
            }
            Value::document(shown)
        });
        let mut kept = Document::one("views", views.collect::<Vec<_>>());
        kept.push("users", Value::array(self.users.iter().cloned().map(Value::document).collect()));
        Some(url_text_of_bytes(&kept.to_bytes()))
    }

    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }
}

fn decoded(text: &str) -> Result<Document> {
    let bytes = bytes_of_url_text(text)
        .ok_or_else(|| Failure::new(8, "what is kept with a collection is damaged"))?;
    Ok(Document::from_bytes(&bytes)?)
}

/// The metadata of a container, valid for one `etag`.
#[derive(Debug, Clone)]
pub(crate) struct KnownMeta {
    pub etag: [u8; 16],
    pub meta: Arc<Meta>,
    pub rules: Arc<DocumentRules>,
    pub uses: Arc<IndexUses>,
}

/// Whether an option is there and not false.
pub fn flag(document: &Document, name: &str) -> bool {
    document.get(name).is_some_and(Value::is_true)
}
