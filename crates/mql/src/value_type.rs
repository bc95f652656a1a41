//! Names and numbers of the types of BSON, as `$type` and `$convert` take them.

/// In the order in which messages name them.
pub(crate) const TYPES: &[(i32, &str)] = &[
    (1, "double"),
    (2, "string"),
    (3, "object"),
    (4, "array"),
    (5, "binData"),
    (6, "undefined"),
    (7, "objectId"),
    (8, "bool"),
    (9, "date"),
    (10, "null"),
    (11, "regex"),
    (12, "dbPointer"),
    (13, "javascript"),
    (14, "symbol"),
    (15, "javascriptWithScope"),
    (16, "int"),
    (17, "timestamp"),
    (18, "long"),
    (19, "decimal"),
    (127, "maxKey"),
    (-1, "minKey"),
];

/// The name of a type, where one has that name.
pub(crate) fn by_name(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(_, known)| *known == name).map(|(_, known)| *known)
}

pub(crate) fn by_number(number: i32) -> Option<&'static str> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

pub(crate) fn number_of(name: &str) -> Option<i32> {
    TYPES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}
