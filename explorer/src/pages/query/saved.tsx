// Saved queries: named, kept in this browser, and moved to others as a file.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { get, put } from "../../client/store";
import { readSaved, type SavedQuery } from "../../client/saved";
import { Dialog } from "../../kit/dialog";
import { Icon } from "../../kit/icons";
import { saveText } from "../../kit/save";

const KEPT_MAX = 500;

export function Saved(props: { text: string; onPick: (text: string) => void; onClose: () => void }): JSX.Element {
  const list = asked(async () => (await get<SavedQuery[]>("saved", "queries")) ?? []);
  const [name, setName] = createSignal("");
  const [problem, setProblem] = createSignal("");
  const queries = () => list.value() ?? [];
  const keep = async (next: SavedQuery[]) => {
    const sorted = next.sort((left, right) => (left.name < right.name ? -1 : 1)).slice(0, KEPT_MAX);
    list.set(sorted);
    await put("saved", "queries", sorted);
  };
  const add = (more: SavedQuery[]) => {
    const names = new Set(more.map((query) => query.name));
    return keep([...queries().filter((query) => !names.has(query.name)), ...more]);
  };
  const load = async (file: File | undefined) => {
    if (!file) return;
    try {
      setProblem("");
      await add(readSaved(await file.text()));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <Dialog title="Saved queries" onClose={props.onClose} isWide>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void add([{ name: name().trim(), text: props.text }]).then(() => setName(""));
        }}
      >
        <label class="grow">
          Name{" "}
          <input
            class="grow"
            autocomplete="off"
            maxlength="120"
            value={name()}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={name().trim() === "" || props.text.trim() === ""}>
          Save what is in the editor
        </button>
      </form>
      <Show when={problem()}>
        <p class="bad" role="alert">
          {problem()}
        </p>
      </Show>
      <ul class="saved">
        <For each={queries()} fallback={<li class="dim">Nothing is saved in this browser yet.</li>}>
          {(query) => (
            <li class="row">
              <button type="button" class="plain act" onClick={() => props.onPick(query.text)}>
                {query.name}
              </button>
              <code class="grow saved-text" title={query.text}>
                {query.text}
              </code>
              <button
                type="button"
                class="plain square"
                aria-label={`Forget ${query.name}`}
                onClick={() => void keep(queries().filter((other) => other !== query))}
              >
                <Icon name="trash" />
              </button>
            </li>
          )}
        </For>
      </ul>
      <div class="actions">
        <label>
          Read from a file{" "}
          <input
            type="file"
            accept=".json,application/json"
            onChange={(event) => void load(event.currentTarget.files?.[0])}
          />
        </label>
        <span class="spacer" />
        <button
          type="button"
          disabled={queries().length === 0}
          onClick={() => void saveText("queries.json", `${JSON.stringify(queries(), null, 2)}\n`)}
        >
          Write to a file
        </button>
      </div>
    </Dialog>
  );
}
