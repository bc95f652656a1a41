//! Resource types and operation types: their numbers in frames, and the REST protocol's words for them.

use http::Method;

/// Resources that frames may be about; each has a feed in the REST protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceType {
    Database,
    Container,
    Item,
    User,
    Permission,
    StoredProcedure,
    Conflict,
    Trigger,
    Function,
}

impl ResourceType {
    pub fn of(number: u16) -> Option<ResourceType> {
        Some(match number {
            0x01 => ResourceType::Database,
            0x02 => ResourceType::Container,
            0x03 => ResourceType::Item,
            0x05 => ResourceType::User,
            0x06 => ResourceType::Permission,
            0x07 => ResourceType::StoredProcedure,
            0x08 => ResourceType::Conflict,
            0x09 => ResourceType::Trigger,
            0x0a => ResourceType::Function,
            _ => return None,
        })
    }

    /// Whether it belongs to the account, not to a partition.
    pub fn is_metadata(self) -> bool {
        use ResourceType::{Container, Database, Permission, User};
        matches!(self, Database | Container | User | Permission)
    }
}

/// An operation on a resource or on a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationType {
    Create,
    Patch,
    Read,
    ReadFeed,
    Delete,
    Replace,
    ExecuteJavaScript,
    Query,
    Head,
    HeadFeed,
    Upsert,
    Batch,
    QueryPlan,
}

impl OperationType {
    pub fn of(number: u16) -> Option<OperationType> {
        Some(match number {
            0x01 => OperationType::Create,
            0x02 => OperationType::Patch,
            0x03 => OperationType::Read,
            0x04 => OperationType::ReadFeed,
            0x05 => OperationType::Delete,
            0x06 => OperationType::Replace,
            0x08 => OperationType::ExecuteJavaScript,
            // An older number in addition to the newer one.
            0x09 | 0x0f => OperationType::Query,
            0x11 => OperationType::Head,
            0x12 => OperationType::HeadFeed,
            0x13 => OperationType::Upsert,
            0x25 => OperationType::Batch,
            0x42 => OperationType::QueryPlan,
            _ => return None,
        })
    }

    pub fn method(self) -> Method {
        use OperationType::*;
        match self {
            Read | ReadFeed => Method::GET,
            Replace => Method::PUT,
            Delete => Method::DELETE,
            Patch => Method::PATCH,
            Head | HeadFeed => Method::HEAD,
            Create | Upsert | Query | QueryPlan | Batch | ExecuteJavaScript => Method::POST,
        }
    }

    /// Whether it is asked of a feed, not of one resource in it.
    pub fn is_of_feed(self) -> bool {
        use OperationType::*;
        matches!(self, Create | ReadFeed | Query | HeadFeed | Upsert | Batch | QueryPlan)
    }
}
