//! Logins over a front end's own protocol: read, created, changed and removed. Their credentials
//! and rights are the front end's business.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_model::{Error, Login, Result};
use shardlake_router::{LiveCatalog, conflict, not_found};

use crate::Resources;

impl Resources {
    pub fn login_of_number(&self, number: u32) -> Option<Arc<Login>> {
        self.0.router.catalog().load().definitions.logins.get(&number).cloned()
    }

    pub fn login(&self, database: &str, name: &str) -> Option<Arc<Login>> {
        named(&self.0.router.catalog().load().definitions, database, name)
    }

    /// By database and name.
    pub fn logins(&self) -> Vec<Arc<Login>> {
        let mut logins: Vec<_> =
            self.0.router.catalog().load().definitions.logins.values().cloned().collect();
        logins.sort_by(|a, b| (&a.database, &a.name).cmp(&(&b.database, &b.name)));
        logins
    }

    /// A conflict where there is one of this name.
    pub async fn create_login(&self, database: &str, name: &str, kept: String) -> Result<Arc<Login>> {
        let (resources, database, name) = (self.clone(), database.to_owned(), name.to_owned());
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            if named(draft, &database, &name).is_some() {
                return Err(conflict("login", &name));
            }
            let max = resources.router().limits().logins_max;
            if draft.logins.len() >= max {
                return Err(Error::bad_request(format!("an account holds at most {max} logins")));
            }
            let number = loop {
                let number = resources.router().random().below(1 << 32) as u32;
                if !draft.logins.contains(&number) {
                    break number;
                }
            };
            Ok(draft.logins.put(number, Login { number, database, name, kept }))
        };
        Ok(self.router().change(plan).await?.0)
    }

    /// Changes the front end's data of a login, by a function of the present data.
    pub async fn change_login(
        &self,
        database: &str,
        name: &str,
        change: impl FnOnce(&str) -> Result<String> + Send + 'static,
    ) -> Result<()> {
        let (database, name) = (database.to_owned(), name.to_owned());
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let old = named(draft, &database, &name).ok_or_else(|| not_found("login", &name))?;
            let kept = change(&old.kept)?;
            draft.logins.put(old.number, Login { kept, ..Login::clone(&old) });
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }

    /// Removes the login of this name, or all of the database, and returns the number removed.
    pub async fn remove_logins(&self, database: &str, name: Option<&str>) -> Result<usize> {
        let (database, name) = (database.to_owned(), name.map(str::to_owned));
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let before = draft.logins.len();
            let is_meant = |login: &Login| {
                login.database == database && name.as_ref().is_none_or(|name| *name == login.name)
            };
            draft.logins.retain(|_, login| !is_meant(login));
            Ok(before - draft.logins.len())
        };
        Ok(self.router().change(plan).await?.0)
    }
}

fn named(definitions: &Definitions, database: &str, name: &str) -> Option<Arc<Login>> {
    let mut logins = definitions.logins.values();
    logins.find(|login| login.database == database && login.name == name).cloned()
}
