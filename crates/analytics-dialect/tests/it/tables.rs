//! Tables of the tests: a shop of two containers, one in full fidelity, and one in another database.

use shardlake_analytics_dialect::{Column, Kind, Table};

fn text(name: &str) -> Column {
    Column::new(name, Kind::Text)
}

fn object(name: &str, fields: Vec<Column>) -> Column {
    Column::new(name, Kind::Struct(fields))
}

fn list(name: &str, kind: Kind) -> Column {
    Column::new(name, Kind::List(Box::new(kind)))
}

fn table(database: &str, container: &str, mut columns: Vec<Column>) -> Table {
    columns.insert(0, text("_rid"));
    columns.insert(1, Column::new("_ts", Kind::Long));
    columns.insert(2, text("id"));
    columns.push(text("_rest"));
    Table { database: database.to_owned(), container: container.to_owned(), columns }
}

pub fn tables() -> Vec<Table> {
    let line = Kind::Struct(vec![
        text("sku"),
        Column::new("quantity", Kind::Long),
        Column::new("price", Kind::Double),
        list("tags", Kind::Text),
    ]);
    let customer = vec![
        text("type"),
        text("customerId"),
        text("orderDate"),
        Column::new("n", Kind::Long),
        Column::new("total", Kind::Double),
        Column::new("isOpen", Kind::Boolean),
        list("tags", Kind::Text),
        list("details", line),
        object(
            "address",
            vec![
                text("city"),
                Column::new("zip", Kind::Long),
                object("geo", vec![Column::new("lat", Kind::Double)]),
            ],
        ),
        text("First_x0020_Name_x002C__x0020_Last"),
    ];
    let product = vec![text("sku"), text("name"), text("categoryName"), Column::new("price", Kind::Double)];
    let number_or_text = Kind::Struct(vec![
        Column::new("num", Kind::Double),
        text("string"),
        Column::new("NULL", Kind::Boolean),
    ]);
    vec![
        table("shop", "customer", customer),
        table("shop", "product", product),
        table("shop", "full", vec![Column::new("rating", number_or_text)]),
        table("old-shop", "Sales Orders", vec![text("status")]),
        Table { database: "shop".to_owned(), container: "unknown".to_owned(), columns: Vec::new() },
    ]
}
