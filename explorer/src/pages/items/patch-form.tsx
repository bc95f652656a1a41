// Operations of a patch, as rows that people fill in.

import { createSignal, For, Show, type JSX } from "solid-js";
import { check } from "../../client/json-check";
import { PATCH_MAX, type PatchOperation } from "../../editor/patch";
import { Icon } from "../../kit/icons";

const KINDS: { op: PatchOperation["op"]; words: string }[] = [
  { op: "set", words: "set" },
  { op: "add", words: "add" },
  { op: "replace", words: "replace" },
  { op: "incr", words: "increase by" },
  { op: "remove", words: "remove" },
];

interface Row {
  op: PatchOperation["op"];
  path: string;
  value: string;
}

/** Tells the operations whenever they are whole, and nothing while they are not. */
export function PatchForm(props: { onChange: (operations: PatchOperation[] | null) => void }): JSX.Element {
  const [rows, setRows] = createSignal<Row[]>([{ op: "set", path: "", value: "" }]);
  const change = (at: number, part: Partial<Row>) => {
    setRows(rows().map((row, index) => (index === at ? { ...row, ...part } : row)));
    tell();
  };
  /** Where a row was just left out, the last one stands for it until its fields are gone. */
  const row = (at: number) => rows()[at] ?? (rows().at(-1) as Row);
  const tell = () => {
    const isWhole = rows().length > 0 && rows().every(({ path }) => /^\/./.test(path));
    props.onChange(isWhole ? rows().map(operationOf) : null);
  };
  return (
    <fieldset class="form">
      <legend>Operations, in their order</legend>
      <For each={rows().map((_, at) => at)}>
        {(at) => (
          <div class="row patch-row">
            <select
              aria-label={`Operation ${at + 1}`}
              value={row(at).op}
              onChange={(event) => change(at, { op: event.currentTarget.value as Row["op"] })}
            >
              {KINDS.map(({ op, words }) => (
                <option value={op}>{words}</option>
              ))}
            </select>
            <input
              class="mono"
              aria-label={`Path ${at + 1}`}
              placeholder="/state"
              spellcheck={false}
              value={row(at).path}
              onInput={(event) => change(at, { path: event.currentTarget.value })}
            />
            <Show when={row(at).op !== "remove"}>
              <input
                class="mono grow"
                aria-label={`Value ${at + 1}`}
                placeholder="JSON, or bare text"
                spellcheck={false}
                value={row(at).value}
                onInput={(event) => change(at, { value: event.currentTarget.value })}
              />
            </Show>
            <Show when={rows().length > 1}>
              <button
                type="button"
                class="plain square"
                aria-label={`Leave out operation ${at + 1}`}
                onClick={() => {
                  setRows(rows().filter((_, index) => index !== at));
                  tell();
                }}
              >
                <Icon name="close" />
              </button>
            </Show>
          </div>
        )}
      </For>
      <Show when={rows().length < PATCH_MAX}>
        <div>
          <button
            type="button"
            onClick={() => {
              setRows([...rows(), { op: "set", path: "", value: "" }]);
              tell();
            }}
          >
            <Icon name="plus" /> Operation
          </button>
        </div>
      </Show>
    </fieldset>
  );
}

function operationOf({ op, path, value }: Row): PatchOperation {
  return { op, path, value: op === "remove" ? undefined : valueText(value) };
}

/** JSON as it was typed, else the text as a string: no number is rounded. */
function valueText(typed: string): string {
  const trimmed = typed.trim();
  const isJson = trimmed !== "" && !check(trimmed).some(({ isError }) => isError);
  return isJson ? trimmed : JSON.stringify(typed);
}
