//! Attempts to widen what a token reaches.
