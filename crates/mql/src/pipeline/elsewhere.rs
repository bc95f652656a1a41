//! Stages about the server. The server answers such a stage if it is the first of a pipeline, and gives its documents
//! to the stages behind it. In other places the stage is an error.

use std::sync::Arc;

use super::run::{Context, Operator, Stage};
use crate::error::{NOT_SUPPORTED, Result, fail};
use crate::value::{Str, Value};

pub(super) struct Elsewhere(pub Str);

impl Stage for Elsewhere {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(Refusing(self.0.clone()))
    }
}

struct Refusing(Str);

impl Operator for Refusing {
    fn push(&mut self, _: Value, _: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        fail!(NOT_SUPPORTED, "{} is not supported within another stage or in a view", self.0)
    }

    fn finish(&mut self, _: &mut Context<'_>, _: &mut Vec<Value>) -> Result<()> {
        fail!(NOT_SUPPORTED, "{} is not supported within another stage or in a view", self.0)
    }
}
