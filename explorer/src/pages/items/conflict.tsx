// Somebody was faster: base, mine and theirs by path, merged where they do not touch, chosen where they do.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { pretty } from "../../client/json";
import { merge } from "../../editor/merge";
import { Dialog } from "../../kit/dialog";
import { plural } from "../../kit/format";
import { Heads } from "../../kit/heads";

interface ConflictProps {
  base: string;
  mine: string;
  theirs: string;
  onSave: (merged: string) => void;
  onTake: () => void;
  onClose: () => void;
}

export function Conflict(props: ConflictProps): JSX.Element {
  const [mineFor, setMineFor] = createSignal<ReadonlySet<string>>(new Set());
  const merged = createMemo(() => merge(props.base, props.mine, props.theirs, (path) => mineFor().has(path)));
  const conflicts = () => merged().changes.filter(({ isConflict }) => isConflict);
  const choose = (path: string, isMine: boolean) => {
    const next = new Set(mineFor());
    if (isMine) next.add(path);
    else next.delete(path);
    setMineFor(next);
  };
  return (
    <Dialog title="Somebody else changed this item" onClose={props.onClose} isWide>
      <p>
        Since you read it, the item was saved by somebody else. Changes that do not touch each other are merged;
        {conflicts().length > 0
          ? ` choose for ${plural(conflicts().length, "place")} that both changed.`
          : " both of you changed different places."}
      </p>
      <div class="scroll-x">
        <table class="plain">
          <Heads names={["Path", "As you read it", "Mine", "Theirs", "Saved"]} />
          <tbody>
            <For each={merged().changes}>
              {(change) => (
                <tr>
                  <td class="mono">{change.path}</td>
                  <td>
                    <Token text={change.base} />
                  </td>
                  <td>
                    <Token text={change.mine} />
                  </td>
                  <td>
                    <Token text={change.theirs} />
                  </td>
                  <td>
                    <Show when={change.isConflict} fallback={change.mine === change.base ? "theirs" : "mine"}>
                      <label>
                        <input
                          type="radio"
                          name={`choice ${change.path}`}
                          checked={mineFor().has(change.path)}
                          onChange={() => choose(change.path, true)}
                        />{" "}
                        mine
                      </label>{" "}
                      <label>
                        <input
                          type="radio"
                          name={`choice ${change.path}`}
                          checked={!mineFor().has(change.path)}
                          onChange={() => choose(change.path, false)}
                        />{" "}
                        theirs
                      </label>
                    </Show>
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Go on editing
        </button>
        <button type="button" onClick={() => props.onTake()}>
          Take theirs
        </button>
        <button type="button" class="primary" onClick={() => props.onSave(pretty(merged().text))}>
          Save merged
        </button>
      </div>
    </Dialog>
  );
}

function Token(props: { text: string | undefined }): JSX.Element {
  return (
    <Show when={props.text !== undefined} fallback={<span class="dim">missing</span>}>
      <code>{(props.text ?? "").slice(0, 300)}</code>
    </Show>
  );
}
