//! Tables that follow containers.
