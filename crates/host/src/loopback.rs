//! A partition that is reached as if it were open on another node: each command and each reply is encoded and decoded, and
//! nothing else passes. Tests run the engine over it.

use shardlake_model::{Error, RequestContext, Result};
use shardlake_partition::{ChangeSink, FeedFound, HEAVY_BYTES, offload};

use crate::changes::{SentChange, SentChanges};
use crate::command::Command;
use crate::feeds::ReadChanges;
use crate::hosted::Hosted;
use crate::travel::{Caller, ErrorForm, Travels, of_bytes, to_bytes};

/// Sends a command to the owner of a partition.
pub async fn send<C: Command>(owner: &Hosted, ctx: &RequestContext, command: &C) -> Result<C::Reply> {
    let request = to_bytes(&(Caller::of(ctx, owner.clock()), command.form()))?;
    let answer = serve::<C>(owner, request).await?;
    match of_bytes::<Result<<C::Reply as Travels>::Form, ErrorForm>>(&answer)? {
        Ok(form) => C::Reply::of_form(form, owner.schema()),
        Err(error) => Err(error.error()),
    }
}

/// Runs a command that has arrived at the owner, and gives the bytes of its answer.
async fn serve<C: Command>(owner: &Hosted, request: Vec<u8>) -> Result<Vec<u8>> {
    let run = async {
        let schema = owner.schema().clone();
        let is_heavy = request.len() > HEAVY_BYTES;
        let decode = move || {
            let (caller, form): (Caller, C::Form) = of_bytes(&request)?;
            Ok::<_, Error>((caller, C::of_form(form, &schema)?))
        };
        let (caller, mut command) = if is_heavy { offload(decode).await?? } else { decode()? };
        let ctx = caller.context(owner.clock());
        command.arrive(owner, &ctx);
        let reply = command.run(owner, &ctx).await?;
        Ok::<_, Error>(reply.form())
    };
    to_bytes(&run.await.map_err(|error| ErrorForm::of(&error)))
}

/// Hands a page of changes, which the owner has found, to a sink here.
pub async fn read_changes(
    owner: &Hosted,
    ctx: &RequestContext,
    command: &ReadChanges,
    out: &mut dyn ChangeSink,
) -> Result<FeedFound> {
    let request = to_bytes(&(Caller::of(ctx, owner.clock()), command))?;
    let answer = serve_changes(owner, &request).await?;
    match of_bytes::<Result<(FeedFound, Vec<SentChange>), ErrorForm>>(&answer)? {
        Ok((found, changes)) => {
            for change in changes {
                change.push_to(owner.schema(), out)?;
            }
            Ok(found)
        }
        Err(error) => Err(error.error()),
    }
}

async fn serve_changes(owner: &Hosted, request: &[u8]) -> Result<Vec<u8>> {
    let run = async {
        let (caller, command): (Caller, ReadChanges) = of_bytes(request)?;
        let mut changes = SentChanges::default();
        let found = owner.read_changes(&caller.context(owner.clock()), &command, &mut changes).await?;
        Ok::<_, Error>((found, changes.changes))
    };
    to_bytes(&run.await.map_err(|error| ErrorForm::of(&error)))
}
