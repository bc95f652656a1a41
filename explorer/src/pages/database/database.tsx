// A database: its containers, its users with what they may reach, and its end.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { deleteDatabase } from "../../client/endpoints";
import { createUser, deleteUser, readUsers } from "../../client/users";
import { Confirm } from "../../kit/dialog";
import { bytes, integer, plural } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { go, pathOf, place } from "../../kit/router";
import { NewContainer } from "../../parts/new-container";
import { access, containers, mayWrite, refreshTree } from "../../state/account";
import { failureWords } from "../../state/words";
import { Permissions } from "./permissions";

export default function Database(props: { segments: string[] }): JSX.Element {
  const [, db = ""] = props.segments;
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isCreating, setCreating] = createSignal(false);
  const [isDeleting, setDeleting] = createSignal(false);
  const rows = () => containers().filter(({ database }) => database === db);
  const items = () => rows().reduce((sum, row) => sum + row.items, 0);
  const remove = async () => {
    setDeleting(false);
    try {
      await deleteDatabase(db);
      await refreshTree();
      go([]);
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <>
      <div class="toolbar">
        <h1 class="page-title">{db}</h1>
        <span class="dim">
          {plural(rows().length, "container")} · {plural(items(), "item")}
        </span>
        <span class="spacer" />
        <Show when={mayWrite() && access() === "full"}>
          <button type="button" onClick={() => setCreating(true)}>
            <Icon name="plus" /> New container
          </button>
          <button type="button" class="danger" onClick={() => setDeleting(true)}>
            Delete database
          </button>
        </Show>
      </div>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("The database", error())} />}</Show>
      <section class="section" aria-label="Containers of the database">
        <div class="scroll-x">
          <table class="plain fit">
            <Heads names={["Container", { number: "Items" }, { number: "Size" }, { number: "Partitions" }]} />
            <tbody>
              <For
                each={rows()}
                fallback={
                  <tr>
                    <td colspan="4" class="dim">
                      No containers yet.
                    </td>
                  </tr>
                }
              >
                {(row) => (
                  <tr>
                    <td>
                      <a class="mono" href={pathOf(["c", db, row.container, "items"])}>
                        {row.container}
                      </a>
                    </td>
                    <td class="number">{integer(row.items)}</td>
                    <td class="number">{bytes(row.sizeBytes)}</td>
                    <td class="number">{integer(row.partitions)}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </section>
      <Show when={access() === "full"}>
        <Users db={db} />
      </Show>
      <Show when={isCreating()}>
        <NewContainer database={db} onClose={() => setCreating(false)} />
      </Show>
      <Show when={isDeleting()}>
        <Confirm
          title={`Delete ${db}?`}
          typed={db}
          action="Delete the database"
          onConfirm={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p>
            {plural(rows().length, "container")} with {plural(items(), "item")}, all users and permissions go for good.
          </p>
        </Confirm>
      </Show>
    </>
  );
}

function Users(props: { db: string }): JSX.Element {
  const list = asked(() => readUsers(props.db));
  const [failure, setFailure] = createSignal<unknown>(null);
  const shown = () => (place().segments[2] === "users" ? place().segments[3] : undefined);
  const act = async (doing: Promise<unknown>) => {
    setFailure(null);
    await doing.catch(setFailure);
    await list.again();
  };
  const add = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const id = String(new FormData(event.currentTarget).get("user") ?? "");
    event.currentTarget.reset();
    if (id) void act(createUser(props.db, id));
  };
  return (
    <section class="section" aria-labelledby="users">
      <h2 id="users">Users</h2>
      <p class="dim">
        A user is a name under which permissions are kept; a permission gives tokens to clients that do not hold a key.
      </p>
      <Show when={list.error() ?? failure()}>
        {(error) => <Failed failure={failureWords("Users", error())} onRetry={() => void list.again()} />}
      </Show>
      <Show when={list.value()} fallback={<Loading words="Reading the users" />}>
        {(users) => (
          <div class="row">
            <For each={users()} fallback={<span class="dim">No users yet.</span>}>
              {(id) => (
                <a
                  class="button mono"
                  aria-current={shown() === id ? "true" : undefined}
                  href={pathOf(["db", props.db, "users", id])}
                >
                  {id}
                </a>
              )}
            </For>
          </div>
        )}
      </Show>
      <Show when={mayWrite()}>
        <form class="row after" onSubmit={add}>
          <label>
            New user <input name="user" class="mono" required />
          </label>
          <button type="submit">Add</button>
          <Show when={shown()}>
            {(id) => (
              <button
                type="button"
                class="danger"
                onClick={() => {
                  void act(deleteUser(props.db, id()));
                  go(["db", props.db]);
                }}
              >
                Delete {id()}
              </button>
            )}
          </Show>
        </form>
      </Show>
      <Show when={shown()} keyed>
        {(id) => <Permissions db={props.db} user={id} />}
      </Show>
    </section>
  );
}
