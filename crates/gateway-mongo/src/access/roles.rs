//! The built-in roles, and the privileges of each. Roles defined by an application are not supported.

use shardlake_mql::{Document, Value};

use super::privileges::Privilege;
use crate::errors::{Result, code, fail};

/// Database of the roles that concern all databases or the server.
const ADMIN: &str = "admin";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    Read,
    ReadWrite,
    DbAdmin,
    UserAdmin,
    DbOwner,
    ReadAnyDatabase,
    ReadWriteAnyDatabase,
    DbAdminAnyDatabase,
    UserAdminAnyDatabase,
    ClusterMonitor,
    Backup,
    Restore,
    Root,
}

use BuiltIn::{
    Backup, ClusterMonitor, DbAdmin, DbAdminAnyDatabase, DbOwner, Read, ReadAnyDatabase, ReadWrite,
    ReadWriteAnyDatabase, Restore, Root, UserAdmin, UserAdminAnyDatabase,
};

impl BuiltIn {
    pub const ALL: [BuiltIn; 13] = [
        Read,
        ReadWrite,
        DbAdmin,
        UserAdmin,
        DbOwner,
        ReadAnyDatabase,
        ReadWriteAnyDatabase,
        DbAdminAnyDatabase,
        UserAdminAnyDatabase,
        ClusterMonitor,
        Backup,
        Restore,
        Root,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Read => "read",
            ReadWrite => "readWrite",
            DbAdmin => "dbAdmin",
            UserAdmin => "userAdmin",
            DbOwner => "dbOwner",
            ReadAnyDatabase => "readAnyDatabase",
            ReadWriteAnyDatabase => "readWriteAnyDatabase",
            DbAdminAnyDatabase => "dbAdminAnyDatabase",
            UserAdminAnyDatabase => "userAdminAnyDatabase",
            ClusterMonitor => "clusterMonitor",
            Backup => "backup",
            Restore => "restore",
            Root => "root",
        }
    }

    fn of_name(name: &str) -> Option<BuiltIn> {
        BuiltIn::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether the role concerns all databases. Such roles belong to `admin`.
    fn is_of_all(self) -> bool {
        !matches!(self, Read | ReadWrite | DbAdmin | UserAdmin | DbOwner)
    }

    fn privileges(self) -> &'static [Privilege] {
        use Privilege::{Everything, Inspect, Manage, Monitor, ReadUsers, RestoreUsers, Shape, Users, Write};
        match self {
            Read | ReadAnyDatabase => &[Privilege::Read, Inspect],
            ReadWrite | ReadWriteAnyDatabase => &[Privilege::Read, Inspect, Write, Shape],
            DbAdmin | DbAdminAnyDatabase => &[Inspect, Shape, Manage],
            UserAdmin | UserAdminAnyDatabase => &[Users],
            DbOwner => &[Privilege::Read, Inspect, Write, Shape, Manage, Users],
            ClusterMonitor => &[Inspect, Monitor],
            Backup => &[Privilege::Read, Inspect, Monitor, ReadUsers],
            Restore => &[Inspect, Write, Shape, Manage, Monitor, RestoreUsers],
            Root => &[
                Privilege::Read,
                Inspect,
                Write,
                Shape,
                Manage,
                Users,
                Monitor,
                ReadUsers,
                RestoreUsers,
                Everything,
            ],
        }
    }
}

/// A role of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub kind: BuiltIn,
    pub database: String,
}

impl Role {
    /// Parses a name, which is of the database of the command, or a document that names both.
    pub fn parse(value: &Value, database: &str) -> Result<Role> {
        let (name, database) = match value {
            Value::String(name) => (name.to_string(), database.to_owned()),
            Value::Document(role) => {
                let part = |name: &str| role.value(name).as_str().map(str::to_owned);
                match (part("role"), part("db"), role.len()) {
                    (Some(name), Some(database), 2) => (name, database),
                    _ => fail!(code::BAD_VALUE, "a role is a name, or a document of 'role' and 'db'"),
                }
            }
            other => fail!(
                code::TYPE_MISMATCH,
                "a role is a name, or a document of 'role' and 'db', and not {}",
                other.type_name()
            ),
        };
        let kind = BuiltIn::of_name(&name).filter(|kind| !kind.is_of_all() || database == ADMIN);
        match kind {
            Some(kind) => Ok(Role { kind, database }),
            None => fail!(
                code::ROLE_NOT_FOUND,
                "Could not find role: {name}@{database}: there are built-in roles only"
            ),
        }
    }

    pub fn parse_all(values: &[Value], database: &str) -> Result<Vec<Role>> {
        let mut roles: Vec<Role> = Vec::new();
        for value in values {
            let role = Role::parse(value, database)?;
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        Ok(roles)
    }

    pub fn document(&self) -> Document {
        let mut role = Document::one("role", self.kind.name());
        role.push("db", Value::string(&self.database));
        role
    }

    /// A `database` of `None` asks for the privilege on all databases.
    pub fn grants(&self, privilege: Privilege, database: Option<&str>) -> bool {
        let reaches = self.kind.is_of_all() || database == Some(&*self.database);
        reaches && self.kind.privileges().contains(&privilege)
    }

    /// As `showPrivileges` returns it.
    pub fn privileges(&self) -> Document {
        let database = if self.kind.is_of_all() { "" } else { &*self.database };
        let mut resource = Document::one("db", database);
        resource.push("collection", Value::string(""));
        let actions = self.kind.privileges().iter().flat_map(|privilege| privilege.actions());
        let mut actions: Vec<&str> = actions.copied().collect();
        actions.sort_unstable();
        let mut shown = Document::one("resource", resource);
        shown.push("actions", Value::array(actions.into_iter().map(Value::string).collect()));
        shown
    }

    /// Every role of a database.
    pub fn of_database(database: &str) -> Vec<Role> {
        let kinds = BuiltIn::ALL.into_iter().filter(|kind| !kind.is_of_all() || database == ADMIN);
        kinds.map(|kind| Role { kind, database: database.to_owned() }).collect()
    }
}

/// Rights of a user: the union of its roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights(pub Vec<Role>);

impl Rights {
    /// A `database` of `None` asks for the privilege on all databases.
    pub fn has(&self, privilege: Privilege, database: Option<&str>) -> bool {
        self.0.iter().any(|role| role.grants(privilege, database))
    }

    /// Whether the user has any right on the database.
    pub fn reaches(&self, database: &str) -> bool {
        self.0.iter().any(|role| role.kind.is_of_all() || role.database == database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_about_all_databases_are_roles_of_admin() {
        let parse = |name: &str, database: &str| Role::parse(&Value::string(name), database);
        assert!(parse("root", "admin").is_ok());
        assert_eq!(parse("root", "d").expect_err("of admin").code(), 31);
        assert_eq!(parse("mine", "d").expect_err("of an application's own").code(), 31);
        let role = parse("read", "d").expect("a role");
        assert!(role.grants(Privilege::Read, Some("d")));
        assert!(!role.grants(Privilege::Read, Some("e")));
        assert!(!role.grants(Privilege::Read, None));
        assert!(!role.grants(Privilege::Write, Some("d")));
        assert!(!parse("userAdmin", "d").expect("a role").grants(Privilege::Users, Some("admin")));
    }
}
