//! The version that clients see.

/// The version of the reference that this server is compatible with. Drivers and tools choose features by it.
pub const VERSION: [i32; 4] = [8, 0, 15, 0];

pub fn version_text() -> String {
    format!("{}.{}.{}", VERSION[0], VERSION[1], VERSION[2])
}

/// Major and minor version, as in `featureCompatibilityVersion`.
pub fn release_text() -> String {
    format!("{}.{}", VERSION[0], VERSION[1])
}
