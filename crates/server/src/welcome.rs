//! The page that a browser gets at `/`: a short introduction, and how to connect.
//!
//! It has no script, no style and nothing of the account. The authority in it has passed `host_check.rs`, so it is made of letters,
//! digits and the few signs that names and addresses have.

use shardlake_gateway_nosql::Scheme;

use crate::keys::WELL_KNOWN_KEY;

/// Nothing is loaded, sent or framed.
pub const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn page(scheme: Scheme, authority: &str, has_well_known_key: bool) -> String {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let (key, key_in_code) = if has_well_known_key {
        (
            format!("the well-known key of the official emulator: <code>{WELL_KNOWN_KEY}</code>"),
            WELL_KNOWN_KEY,
        )
    } else {
        (
            "of its own: in the file that <code>key_file</code> names in the first line the server printed"
                .to_owned(),
            "…",
        )
    };
    format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Shardlake</title>
<h1>Shardlake {version}</h1>
<p>A database for JSON documents. The Azure Cosmos DB SDKs talk to it; a browser sees only this page.</p>
<ul>
<li>Endpoint: <code>{scheme}://{authority}/</code></li>
<li>Key: {key}</li>
</ul>
<p>Python, after <code>pip install azure-cosmos</code>:</p>
<pre>from azure.cosmos import CosmosClient
client = CosmosClient("{scheme}://{authority}/", "{key_in_code}")
print([database["id"] for database in client.list_databases()])</pre>
<p>JavaScript, after <code>npm install @azure/cosmos</code>:</p>
<pre>const {{ CosmosClient }} = require("@azure/cosmos");
const client = new CosmosClient({{ endpoint: "{scheme}://{authority}/", key: "{key_in_code}" }});
client.databases.readAll().fetchAll().then(({{ resources }}) =&gt; console.log(resources.map(({{ id }}) =&gt; id)));</pre>
<p>In a terminal: <code>shardlake partitions</code> shows the containers, <code>shardlake help</code> what else there is.</p>
<p>Without a key: <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a>,
<a href="/_shardlake/ca.pem">/_shardlake/ca.pem</a> (the authority to trust for https).</p>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}
