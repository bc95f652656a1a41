// A test run of a script: rolled back unless one says otherwise, with its result, log, charge and what it would write.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asServerError } from "../../client/failure";
import { valueAt } from "../../client/json";
import { check } from "../../client/json-check";
import { readKey } from "../../client/key";
import { runSaved, tryScript, type RunResult, type ScriptKind } from "../../client/scripts";
import { milliseconds, plural, ru } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { Failed } from "../../kit/pane";
import { mayWrite, offers } from "../../state/account";
import { failureWords } from "../../state/words";

interface TryOutProps {
  db: string;
  coll: string;
  kind: ScriptKind;
  /** A trigger that follows its write. */
  isAfter: boolean;
  /** What a trigger is for; one for all is tried at a create. */
  operation: string;
  id: string;
  isSaved: boolean;
  body: () => string;
  onPlace: (line: number) => void;
}

/** Single operations that a trigger for several of them can be tried at. */
const OPERATIONS: Record<string, string[]> = {
  All: ["Create", "Replace", "Upsert", "Delete"],
  Update: ["Replace", "Upsert"],
};

export function TryOut(props: TryOutProps): JSX.Element {
  const isTrigger = props.kind === "triggers";
  const isFunction = props.kind === "udfs";
  const mayTry = () => offers("scriptsRun");
  const [key, setKey] = createSignal("");
  const [given, setGiven] = createSignal(isTrigger ? '{"id":"1"}' : "[]");
  const [isCommit, setCommit] = createSignal(false);
  const [result, setResult] = createSignal<RunResult | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const mistake = () => check(given()).find(({ isError }) => isError);
  const trace = () => asServerError(failure() ?? "").script;
  const isShown = () => mayWrite() && (mayTry() || (props.isSaved && props.kind === "sprocs"));
  const operations = () => OPERATIONS[props.operation] ?? [props.operation];
  const [chosen, setChosen] = createSignal("");
  const operation = () => (operations().includes(chosen()) ? chosen() : (operations()[0] ?? "Create"));
  const isOfId = () => props.isAfter && operation() === "Delete";

  const run = async (event: SubmitEvent) => {
    event.preventDefault();
    setFailure(null);
    setResult(null);
    const { db, coll } = props;
    const named = readKey(key()) ?? "[]";
    try {
      setResult(
        mayTry()
          ? await tryScript(db, coll, {
              kind: isTrigger ? "trigger" : isFunction ? "function" : "procedure",
              body: props.body(),
              key: named,
              given: isOfId() ? (valueAt(given(), ["id"]) ?? given()) : given(),
              operation: operation(),
              isAfter: isTrigger && props.isAfter,
              commit: isCommit() && !isFunction,
            })
          : await runSaved(db, coll, props.id, named, given()),
      );
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Show when={isShown()}>
      <form class="toolbar try-out" onSubmit={(event) => void run(event)} aria-label="Test run">
        <Show when={!isFunction}>
          <label>
            Key{" "}
            <input
              class="mono key-input"
              required
              value={key()}
              placeholder='["ada"]'
              onInput={(event) => setKey(event.currentTarget.value)}
            />
          </label>
        </Show>
        <Show when={isTrigger}>
          <label>
            {props.isAfter ? "After" : "Before"}{" "}
            <select value={operation()} onChange={(event) => setChosen(event.currentTarget.value)}>
              <For each={operations()}>{(name) => <option>{name}</option>}</For>
            </select>
          </label>
        </Show>
        <label class="grow">
          {isTrigger ? "Item" : "Arguments"}{" "}
          <input
            class="mono grow"
            value={given()}
            aria-invalid={mistake() !== undefined}
            onInput={(event) => setGiven(event.currentTarget.value)}
          />
        </label>
        <Show when={mayTry() && !isFunction}>
          <label>
            <input type="checkbox" checked={isCommit()} onChange={(event) => setCommit(event.currentTarget.checked)} />{" "}
            keep what it writes
          </label>
        </Show>
        <button type="submit" disabled={mistake() !== undefined}>
          <Icon name="run" /> {isFunction ? "Call" : mayTry() && !isCommit() ? "Dry run" : "Run"}
        </button>
      </form>
      <Show when={mistake()}>{(found) => <p class="bad after">{found().words}</p>}</Show>
      <Show when={failure()}>
        {(error) => (
          <>
            <Failed failure={failureWords("The run", error())} />
            <Show when={trace()?.line}>
              {(line) => (
                <button type="button" class="plain act" onClick={() => props.onPlace(line())}>
                  Show line {line()}
                </button>
              )}
            </Show>
            <Show when={trace()?.log}>
              {(log) => (
                <div class="run-result">
                  <h2>Log until then</h2>
                  <pre class="block">{log()}</pre>
                </div>
              )}
            </Show>
          </>
        )}
      </Show>
      <Show when={result()}>
        {(now) => (
          <div class="run-result" role="status">
            <p>
              <b>{isFunction ? "Called." : now().committed ? "Done and kept." : "Rolled back: nothing was written."}</b>{" "}
              {ru(now().charge)} · {milliseconds(now().elapsedMs)}
              {now().writes.length > 0 ? ` · ${plural(now().writes.length, "write")}` : ""}
            </p>
            <h2>Result</h2>
            <pre class="block">{now().result}</pre>
            <Show when={now().log}>
              <h2>Log</h2>
              <pre class="block">{now().log}</pre>
            </Show>
            <Show when={now().writes.length > 0}>
              <ul class="reasons">
                <For each={now().writes}>
                  {(write) => (
                    <li>
                      <b>{write.operation}</b> <span class="mono">{write.id}</span>
                    </li>
                  )}
                </For>
              </ul>
            </Show>
          </div>
        )}
      </Show>
    </Show>
  );
}
