//! Vector embedding policy of a container, and its rules with the vector indexes of the indexing policy (search-wire.md §5).
//!
//! Definitions are kept and checked as the service checks them. No query uses a vector index yet.

use serde::{Deserialize, Serialize};

use crate::{Error, Result, VectorIndex};

/// A vector in a flat index, and in the others.
const FLAT_DIMENSIONS_MAX: i64 = 505;
const DIMENSIONS_MAX: i64 = 4096;
const QUANTIZATION_BYTES_MAX: i64 = 512;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorEmbeddingPolicy {
    pub vector_embeddings: Vec<VectorEmbedding>,
}

/// Its members are required. A missing one is empty here, so that the refusal has the service's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorEmbedding {
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub data_type: String,
    #[serde(default)]
    pub dimensions: i64,
    #[serde(default)]
    pub distance_function: String,
}

pub(crate) fn validate_vectors(
    policy: Option<&VectorEmbeddingPolicy>,
    indexes: &[VectorIndex],
) -> Result<()> {
    let embeddings: &[VectorEmbedding] = policy.map_or(&[], |policy| &policy.vector_embeddings);
    embeddings.iter().try_for_each(VectorEmbedding::validate)?;
    for index in indexes {
        let Some(embedding) = embeddings.iter().find(|embedding| embedding.path == index.path) else {
            return Err(Error::bad_request(format!(
                "The Vector Indexing Policy's path::{} not matching in Embedding's path.",
                index.path
            )));
        };
        validate_index(index, embedding.dimensions)?;
    }
    Ok(())
}

/// Indexes may be added and removed, never changed.
pub(crate) fn validate_vector_indexes_replace(old: &[VectorIndex], new: &[VectorIndex]) -> Result<()> {
    let is_changed = |old: &VectorIndex| new.iter().any(|index| index.path == old.path && index != old);
    match old.iter().any(is_changed) {
        true => Err(Error::bad_request(
            "Paths in existing vector indexing policy cannot be modified in Collection Replace. They can only be added or removed.",
        )),
        false => Ok(()),
    }
}

/// Checks a replace of embeddings in the same way.
pub(crate) fn validate_vectors_replace(
    old: Option<&VectorEmbeddingPolicy>,
    new: Option<&VectorEmbeddingPolicy>,
) -> Result<()> {
    let new: &[VectorEmbedding] = new.map_or(&[], |policy| &policy.vector_embeddings);
    let is_changed =
        |old: &VectorEmbedding| new.iter().any(|embedding| embedding.path == old.path && embedding != old);
    match old.into_iter().flat_map(|policy| &policy.vector_embeddings).any(is_changed) {
        true => Err(Error::bad_request(
            "Paths in existing embedding policy cannot be modified in Collection Replace. They can only be added or removed.",
        )),
        false => Ok(()),
    }
}

impl VectorEmbedding {
    fn validate(&self) -> Result<()> {
        let refused = |why: String| Err(Error::bad_request(why));
        let is_incomplete =
            [&self.path, &self.data_type, &self.distance_function].into_iter().any(String::is_empty);
        if is_incomplete || self.dimensions == 0 {
            return refused(
                "At least one mandatory field in the Vector Embedding Policy is invalid. Verify that the path, datatype, distanceFunction, and dimensions parameters are correct.".into(),
            );
        }
        let is_one_of =
            |value: &str, allowed: &[&str]| allowed.iter().any(|name| name.eq_ignore_ascii_case(value));
        if !is_one_of(&self.data_type, &["float32", "float16", "int8", "uint8"]) {
            return refused(format!(
                "The Vector Embedding Policy has an invalid DataType:{}. Learn more about Container Vector Policy data types: float32, float16, int8 and uint8.",
                self.data_type
            ));
        }
        if !is_one_of(&self.distance_function, &["cosine", "euclidean", "dotproduct"]) {
            return refused(format!(
                "The Vector Embedding Policy has an invalid DistanceFunction:{}. Supported values for DistanceFunction are: 'Euclidean', 'Cosine', and 'DotProduct'.",
                self.distance_function
            ));
        }
        if !is_property_path(&self.path) {
            return refused(format!(
                "The Vector Embedding Policy has an invalid Path:{}. Specify the correct path for vector properties of your documents.",
                self.path
            ));
        }
        match self.dimensions {
            1..=DIMENSIONS_MAX => Ok(()),
            ..1 => refused(format!(
                "The Vector Embedding Policy has Dimensions:{} which is less than the minimum supported value 1.",
                self.dimensions
            )),
            _ => refused(format!(
                "The Vector Embedding Policy has Dimensions:{} which is more than the maximum supported value {DIMENSIONS_MAX}.",
                self.dimensions
            )),
        }
    }
}

/// `/a/b`: no wildcard, no element of an array, and nothing empty.
pub(crate) fn is_property_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['*', '?', '[', ']']);
    path.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name))
}

fn validate_index(index: &VectorIndex, dimensions: i64) -> Result<()> {
    let kind = index.kind.as_str();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    if !(is("flat") || is("quantizedFlat") || is("diskANN")) {
        return Err(Error::bad_request(format!(
            "The Vector Indexing Policy's Index Type::{kind} is invalid."
        )));
    }
    if is("flat") && dimensions > FLAT_DIMENSIONS_MAX {
        return Err(Error::bad_request(format!(
            "The Vector Indexing Policy's Index Type::{kind} of path::{} supports at most {FLAT_DIMENSIONS_MAX} dimensions, and the embedding has {dimensions}: use quantizedFlat or diskANN.",
            index.path
        )));
    }
    let in_range = |name: &str, value: Option<i64>, low: i64, high: i64| match value {
        Some(value) if !(low..=high).contains(&value) => Err(Error::bad_request(format!(
            "The Vector Indexing Policy parameter {name} value :: {value} is out of range. The allowed range is between {low} and {high}."
        ))),
        _ => Ok(()),
    };
    let quantization_max = dimensions.min(QUANTIZATION_BYTES_MAX);
    in_range("QuantizationByteSize", index.quantization_byte_size, 1, quantization_max)?;
    in_range("IndexingSearchListSize", index.indexing_search_list_size, 25, 500)?;
    let is_quantizer =
        |name: &&String| ["product", "spherical"].iter().any(|known| known.eq_ignore_ascii_case(name));
    if let Some(quantizer) = index.quantizer_type.as_ref().filter(|name| !is_quantizer(name)) {
        return Err(Error::bad_request(format!(
            "The Vector Indexing Policy's QuantizerType::{quantizer} is invalid: use product or spherical."
        )));
    }
    validate_shard_key(index.vector_index_shard_key.as_deref().unwrap_or_default())
}

fn validate_shard_key(paths: &[String]) -> Result<()> {
    if paths.len() > 1 {
        return Err(Error::bad_request(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the maximum: 1.",
            paths.len()
        )));
    }
    match paths.iter().find(|path| !path.starts_with('/')) {
        Some(path) => {
            Err(Error::bad_request(format!("The Vector Indexing Policy has an invalid Shard Path: {path}.")))
        }
        None => Ok(()),
    }
}
