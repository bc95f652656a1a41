//! Nothing: the package exists for its tests, which drive a running server through the official Rust SDK.
