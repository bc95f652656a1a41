// A user's permissions: what each allows, in words, and tokens that are shown once and never stored.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { createPermission, deletePermission, newToken, readPermissions, type Permission } from "../../client/users";
import { readKey } from "../../client/key";
import { Dialog } from "../../kit/dialog";
import { Heads } from "../../kit/heads";
import { Failed } from "../../kit/pane";
import { containers, mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";

const SECONDS = [600, 3_600, 21_600, 86_400];

export function Permissions(props: { db: string; user: string }): JSX.Element {
  const list = asked(() => readPermissions(props.db, props.user));
  const [failure, setFailure] = createSignal<unknown>(null);
  const [token, setToken] = createSignal<string | null>(null);
  const [seconds, setSeconds] = createSignal(3_600);
  const rows = () => containers().filter(({ database }) => database === props.db);
  const act = async (doing: Promise<unknown>) => {
    setFailure(null);
    await doing.catch(setFailure);
    await list.again();
  };
  const add = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const text = (name: string) => String(fields.get(name) ?? "");
    const wanted = {
      id: text("id"),
      permissionMode: text("mode"),
      resource: `dbs/${props.db}/colls/${text("container")}`,
      key: readKey(text("key")),
      seconds: seconds(),
    };
    event.currentTarget.reset();
    void act(createPermission(props.db, props.user, wanted).then(({ _token }) => setToken(_token)));
  };
  return (
    <div class="after">
      <h2>Permissions of {props.user}</h2>
      <Show when={list.error() ?? failure()}>
        {(error) => <Failed failure={failureWords("Permissions", error())} />}
      </Show>
      <div class="scroll-x">
        <table class="plain">
          <Heads names={["Permission", "Reaches", "Allows", "Do"]} />
          <tbody>
            <For
              each={list.value()}
              fallback={
                <tr>
                  <td colspan="4" class="dim">
                    None yet.
                  </td>
                </tr>
              }
            >
              {(one) => (
                <tr>
                  <th scope="row" class="mono">
                    {one.id}
                  </th>
                  <td class="mono">
                    {one.resource}
                    {one.resourcePartitionKey ? ` ${JSON.stringify(one.resourcePartitionKey)}` : ""}
                  </td>
                  <td>{allows(one)}</td>
                  <td class="do">
                    <Show when={mayWrite()}>
                      <button
                        type="button"
                        class="plain"
                        onClick={() =>
                          void newToken(props.db, props.user, one.id, seconds()).then(setToken, setFailure)
                        }
                      >
                        New token
                      </button>
                      <button
                        type="button"
                        class="plain"
                        onClick={() => void act(deletePermission(props.db, props.user, one.id))}
                      >
                        Revoke
                      </button>
                    </Show>
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
      <Show when={mayWrite()}>
        <form class="row after" onSubmit={add}>
          <label>
            Id <input name="id" class="mono key-input" required />
          </label>
          <label>
            Container{" "}
            <select name="container">
              <For each={rows()}>{({ container }) => <option>{container}</option>}</For>
            </select>
          </label>
          <label>
            Mode{" "}
            <select name="mode">
              <option>Read</option>
              <option>All</option>
            </select>
          </label>
          <label>
            Key <input name="key" class="mono key-input" placeholder="all keys" />
          </label>
          <label>
            Good for{" "}
            <select onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
              <For each={SECONDS}>
                {(value) => (
                  <option value={value} selected={value === seconds()}>
                    {value / 60} min
                  </option>
                )}
              </For>
            </select>
          </label>
          <button type="submit">Add</button>
        </form>
      </Show>
      <Show when={token()}>
        {(text) => (
          <Dialog title="A new token" onClose={() => setToken(null)}>
            <p>Good for {seconds() / 60} minutes. It is shown this once and not stored here.</p>
            <div class="form">
              <div class="field">
                <label for="token">Token</label>
                <input id="token" type="password" readonly value={text()} />
              </div>
            </div>
            <div class="actions">
              <button type="button" class="primary" onClick={() => void navigator.clipboard.writeText(text())}>
                Copy
              </button>
            </div>
          </Dialog>
        )}
      </Show>
    </div>
  );
}

function allows(permission: Permission): string {
  const scope = permission.resourcePartitionKey ? "items of that key" : "all items";
  return permission.permissionMode === "All"
    ? `reading, querying, creating, changing and deleting ${scope}, and running procedures`
    : `reading and querying ${scope}, following their changes`;
}
