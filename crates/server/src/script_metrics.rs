//! How the kernel confines script workers, for operators. Nothing is shown before the first worker was started.

use shardlake_account::{ScriptConfined, ScriptConfinementLayer};

use crate::exposition::Page;
use crate::metric_table::SCRIPT_CONFINEMENT;

pub fn write(page: &mut Page, confined: Option<ScriptConfined>) {
    let Some(confined) = confined else { return };
    for layer in ScriptConfinementLayer::ALL {
        page.family(&SCRIPT_CONFINEMENT).push([layer.name()], confined.has(layer));
    }
}
