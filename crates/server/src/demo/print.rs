//! The data set as a seed file, one item a line, written as it is generated.

use std::io::{self, Write};

use serde_json::Value;

use super::DATABASE;
use super::webstore::{CUSTOMER, PRODUCT, PRODUCT_META, StoreContainer, WebStore};

pub fn print(store: &WebStore, to: &mut impl Write) -> io::Result<()> {
    let products = store.products();
    let customers = (0..store.customers).flat_map(|index| {
        let customer = store.customer(index, &products);
        std::iter::once(customer.after_orders(customer.orders.len())).chain(customer.orders)
    });
    writeln!(to, "{{\"databases\":[{{\"id\":\"{DATABASE}\",\"containers\":[")?;
    container(to, CUSTOMER, customers)?;
    writeln!(to, ",")?;
    container(to, PRODUCT, products.iter().cloned())?;
    writeln!(to, ",")?;
    container(to, PRODUCT_META, store.product_meta())?;
    writeln!(to, "]}}]}}")?;
    to.flush()
}

fn container(
    to: &mut impl Write,
    container: StoreContainer,
    items: impl IntoIterator<Item = Value>,
) -> io::Result<()> {
    let definition = container.definition().to_string();
    let open = definition.strip_suffix('}').expect("a definition is an object");
    write!(to, "{open},\"items\":[")?;
    for (index, item) in items.into_iter().enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        write!(to, "{separator}{item}")?;
    }
    write!(to, "\n]}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn what_is_printed_is_a_seed_and_always_the_same() {
        let store = WebStore { customers: 5, seed_number: 1 };
        let text = || {
            let mut text = Vec::new();
            print(&store, &mut text).expect("memory takes everything");
            text
        };
        assert_eq!(text(), text());
        let seed: Seed = serde_json::from_slice(&text()).expect("a seed");
        let [customer, product, meta] = &seed.databases[0].containers[..] else { panic!("three containers") };
        assert!(customer.items.len() > 5);
        assert_eq!((product.items.len(), meta.items.len()), (300, 80));
    }
}
