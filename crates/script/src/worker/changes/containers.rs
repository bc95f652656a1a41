//! The containers that a function may use.

use rquickjs::{Ctx, Error, Result};
use shardlake_model::KeyPath;

use crate::protocol::OrderedContainer;
use crate::worker::model::{refuse, throw};

const FORBIDDEN: u16 = 403;

pub(super) struct Container {
    pub(super) name: String,
    pub(super) key_paths: Vec<KeyPath>,
    may_write: bool,
}

impl Container {
    /// An error is a mistake of the server.
    pub(super) fn of(ordered: &OrderedContainer) -> std::result::Result<Container, String> {
        let parse = |path: &String| KeyPath::parse(path).map_err(|error| error.to_string());
        let key_paths = ordered.key_paths.iter().map(parse).collect::<std::result::Result<_, _>>()?;
        Ok(Container { name: ordered.name.clone(), key_paths, may_write: ordered.may_write })
    }

    pub(super) fn check_write(&self, ctx: &Ctx<'_>) -> Result<()> {
        if self.may_write {
            return Ok(());
        }
        let message = format!(
            "the function may read the container '{}' and not write to it: its definition's 'access' must have \
             \"readWrite\" for it",
            self.name
        );
        Err(throw(ctx, FORBIDDEN, &message))
    }
}

/// The place of a container by its name.
pub(super) fn place_of(ctx: &Ctx<'_>, containers: &[Container], name: &str) -> Result<usize> {
    let place = containers.iter().position(|container| container.name == name);
    place.ok_or_else(|| unknown(ctx, containers, name))
}

fn unknown(ctx: &Ctx<'_>, containers: &[Container], name: &str) -> Error {
    if name.is_empty() {
        return refuse(ctx, "the name of a container must not be empty");
    }
    let known: Vec<_> = containers.iter().map(|container| format!("'{}'", container.name)).collect();
    let known = if known.is_empty() { "no container".to_owned() } else { known.join(", ") };
    let message =
        format!("the function may not use the container '{name}': its definition's 'access' names {known}");
    throw(ctx, FORBIDDEN, &message)
}
