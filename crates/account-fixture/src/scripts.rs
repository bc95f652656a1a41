//! Scripts of tests, registered and run.

use crate::json_door::{JsonDoor, KeyInput};
use shardlake_account::{ContainerHandle, ProcedureReply};
use shardlake_model::{
    Result, ScriptDefinition, ScriptKind, TriggerDefinition, TriggerOperation, TriggerType,
};

use super::{Fixture, json};

/// Names that every procedure of a test may use. Callbacks run one after the other when the script
/// itself has ended, so code that is to run at the end uses `last`.
const NAMES: &str = "const c = getContext().getCollection(), self = c.getSelfLink(), alt = c.getAltLink();
const done = value => getContext().getResponse().setBody(value);
const last = (f, rounds = 9) => c.readDocuments(self, {pageSize: 1}, () => rounds ? last(f, rounds - 1) : f());
const must = (err, value) => { if (err) throw new Error(err.number + ' ' + err.body); return value; };";

impl Fixture {
    /// Registers a procedure with these parameters and this body, or replaces it.
    pub async fn procedure(&self, container: &ContainerHandle, id: &str, parameters: &str, body: &str) {
        let body = format!("function run({parameters}) {{ {NAMES} {body} }}");
        self.script(container, ScriptKind::Procedure, id, body, None).await;
    }

    pub async fn trigger(
        &self,
        container: &ContainerHandle,
        id: &str,
        (trigger_type, operation): (TriggerType, TriggerOperation),
        body: &str,
    ) {
        let body = format!("function run() {{ const c = getContext().getCollection(); {body} }}");
        let definition = TriggerDefinition { trigger_type, operation };
        self.script(container, ScriptKind::Trigger, id, body, Some(definition)).await;
    }

    async fn script(
        &self,
        container: &ContainerHandle,
        kind: ScriptKind,
        id: &str,
        body: String,
        trigger: Option<TriggerDefinition>,
    ) {
        let definition = ScriptDefinition { kind, id: id.to_owned(), body, trigger, spelling: None };
        let none = super::none();
        self.account
            .definitions()
            .upsert_script(&self.ctx(), container, definition, &none)
            .await
            .expect("registered");
    }

    /// Runs a registered procedure on the logical partition of one text.
    pub async fn run(&self, id: &str, pk: &str, arguments: &str) -> Result<ProcedureReply> {
        let container = self.account.router().container("db", "c")?;
        let script = container.script(ScriptKind::Procedure, id)?;
        let key = format!("[\"{pk}\"]");
        let key = Some(KeyInput(&key));
        self.account.json_procedure(&self.ctx(), &container, key, &script, arguments, true).await
    }

    /// Registers and runs a procedure without parameters; gives the body of its response.
    pub async fn ran(&self, pk: &str, body: &str) -> Result<serde_json::Value> {
        let container = self.account.router().container("db", "c")?;
        self.procedure(&container, "p", "", body).await;
        let reply = self.run("p", pk, "[]").await?;
        Ok(reply.body.map_or(serde_json::Value::Null, |body| serde_json::from_str(&body).expect("JSON")))
    }

    /// An item as it is stored, if it exists.
    pub async fn stored(&self, pk: &str, id: &str) -> Option<serde_json::Value> {
        let container = self.account.router().container("db", "c").expect("there");
        let key = format!("[\"{pk}\"]");
        let key = Some(KeyInput(&key));
        let read = self.account.read_item(&self.ctx(), &container, key, id, &super::none()).await;
        read.ok().and_then(|reply| reply.item).map(|item| json(&item))
    }
}
