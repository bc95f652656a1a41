//! Through which door a request came: as HTTP, or as a frame of a client in Direct mode.

/// Where a request came through.
#[derive(Debug, Clone, Copy, Default)]
pub enum Door<'d> {
    #[default]
    Http,
    Direct(Routing<'d>),
}

impl Door<'_> {
    pub fn is_direct(self) -> bool {
        matches!(self, Door::Direct(_))
    }
}

/// What a frame says of where its sender believes the data to be. What it asks for is in the request that it stands for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Routing<'d> {
    /// Path of the address that it was sent to, as `GET /addresses` gave it, escaped or not.
    pub replica_path: &'d str,
    /// Resource id of the container that the names in the request are believed to mean.
    pub container_rid: Option<&'d str>,
}
