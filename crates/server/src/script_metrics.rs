//! What the kernel confines script workers by, for operators. Nothing is shown before the first worker was started.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use shardlake_account::{ScriptConfined, ScriptConfinementLayer};

use crate::metrics::PREFIX;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    layer: &'static str,
}

/// The page's part about script workers.
pub fn write(page: &mut String, confined: Option<ScriptConfined>) {
    let Some(confined) = confined else { return };
    let layers = Family::<Labels, Gauge>::default();
    for layer in ScriptConfinementLayer::ALL {
        layers.get_or_create(&Labels { layer: layer.name() }).set(i64::from(confined.has(layer)));
    }
    let mut to = Registry::with_prefix(PREFIX);
    let help = "1 where the kernel confines script workers by a layer, 0 where it refused to";
    to.register("script_confinement", help, layers);
    text::encode_registry(page, &to).expect("writing to a string cannot fail");
}
