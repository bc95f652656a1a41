// An empty account: three ways in.

import { createSignal, Show, type JSX } from "solid-js";
import { WELL_KNOWN_KEY } from "../../client/sign";
import { access, mayWrite, signedInWords } from "../../state/account";
import { NewContainerButton } from "./new-container-button";

export function FirstSteps(): JSX.Element {
  const [isCopied, setCopied] = createSignal(false);
  // A server with keys of its own refuses the well-known one.
  const key = () => (signedInWords() === "well-known key" ? WELL_KNOWN_KEY : "your key");
  const snippet = () =>
    [
      "from azure.cosmos import CosmosClient, PartitionKey",
      `client = CosmosClient("${location.origin}/", "${key()}")`,
      'shop = client.create_database_if_not_exists("shop")',
      'orders = shop.create_container_if_not_exists("orders", PartitionKey(path="/customer"))',
      'orders.upsert_item({"id": "1", "customer": "ada", "total": 42.5})',
    ].join("\n");
  const copy = async () => {
    await navigator.clipboard.writeText(snippet());
    setCopied(true);
  };
  return (
    <div class="empty">
      <Show when={access() !== "token"} fallback={<TokenWords />}>
        <h1>Nothing is stored here yet</h1>
        <p>Three ways to begin:</p>
        <section class="way">
          <h2>Make a container and upload a file</h2>
          <Show when={mayWrite()} fallback={<p>Unlock writing first: the lock is in the header.</p>}>
            <p>Items are uploaded on the container's page, as JSON lines, a JSON array or CSV.</p>
            <NewContainerButton />
          </Show>
        </section>
        <section class="way">
          <h2>Start a server with demo data</h2>
          <p>A web shop to query, or a partition that gets hot, with a tour of why and what helps:</p>
          <pre class="block">{"shardlake demo webstore\nshardlake demo hot-tenant"}</pre>
          <p class="dim">
            In a checkout of the sources: <code>cargo xtask run</code> and <code>cargo xtask tour</code>.
          </p>
        </section>
        <section class="way">
          <h2>Connect with an SDK</h2>
          <pre class="block">{snippet()}</pre>
          <button type="button" onClick={() => void copy()}>
            {isCopied() ? "Copied" : "Copy"}
          </button>
        </section>
      </Show>
    </div>
  );
}

function TokenWords(): JSX.Element {
  return (
    <>
      <h1>Signed in with a resource token</h1>
      <p>
        It reaches what its permission names. Open that container by its address: /_explorer/c/database/container/items
      </p>
    </>
  );
}
