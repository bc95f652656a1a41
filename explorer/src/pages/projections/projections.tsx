// Projections: how far each is, what it could not apply, and its rule.

import { createEffect, createSignal, For, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import {
  deleteProjection,
  pauseProjection,
  putProjection,
  readProjections,
  resumeProjection,
  type Projection,
} from "../../client/projections";
import { pretty } from "../../client/json";
import { check } from "../../client/json-check";
import type { Editor } from "../../editor/setup";
import { Confirm, Dialog } from "../../kit/dialog";
import { integer } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { pathOf } from "../../kit/router";
import { TextEditor } from "../../parts/text-editor";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";

const NEW_RULE = {
  source: { database: "", container: "" },
  target: { database: "", container: "" },
  match: [{ source: "/id", target: "/sourceId" }],
  set: [{ from: "/name", to: "/sourceName" }],
  start: "beginning",
};

export default function Projections(): JSX.Element {
  const [list, setList] = createSignal<Projection[] | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [rule, setRule] = createSignal<{ id: string; text: string } | null>(null);
  const [doomed, setDoomed] = createSignal<string | null>(null);
  const read = async () => {
    try {
      setList(await readProjections());
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
  };
  createEffect(() => onCleanup(poll(2_000, read)));
  const begin = () => setRule({ id: "", text: pretty(JSON.stringify(NEW_RULE)) });
  const act = async (doing: Promise<unknown>) => {
    await doing.catch(setFailure);
    await read();
  };
  return (
    <>
      <div class="toolbar">
        <h1 class="page-title">Projections</h1>
        <span class="dim">rules that keep denormalised copies true</span>
        <span class="spacer" />
        <Show when={mayWrite()}>
          <button type="button" onClick={begin}>
            <Icon name="plus" /> New
          </button>
        </Show>
      </div>
      <Show when={failure()}>
        {(error) => <Failed failure={failureWords("Projections", error())} onRetry={() => void read()} />}
      </Show>
      <Show when={list()} fallback={<Loading words="Reading the projections" />}>
        {(all) => (
          <Show
            when={all().length > 0}
            fallback={
              <Empty title="No projections">
                <p>
                  A projection copies members of one container's items into another's, and keeps them true as they
                  change.
                </p>
                <Show when={mayWrite()}>
                  <button type="button" class="primary" onClick={begin}>
                    New projection
                  </button>
                </Show>
              </Empty>
            }
          >
            <div class="scroll-x">
              <table class="plain">
                <Heads
                  names={[
                    "Projection",
                    "From → to",
                    "State",
                    { number: "Lag" },
                    { number: "Changes" },
                    { number: "Applied" },
                    { number: "Dead letters" },
                    "Do",
                  ]}
                />
                <tbody>
                  <For each={all()}>
                    {(one) => (
                      <Row
                        projection={one}
                        act={act}
                        onRule={() => setRule({ id: one.id, text: pretty(JSON.stringify(one.rule)) })}
                        onDelete={() => setDoomed(one.id)}
                      />
                    )}
                  </For>
                </tbody>
              </table>
            </div>
          </Show>
        )}
      </Show>
      <Show when={rule()} keyed>
        {(now) => (
          <RuleDialog
            id={now.id}
            text={now.text}
            onClose={() => setRule(null)}
            onSaved={() => {
              setRule(null);
              void read();
            }}
          />
        )}
      </Show>
      <Show when={doomed()} keyed>
        {(id) => (
          <Confirm
            title={`Delete ${id}?`}
            action="Delete the rule"
            onConfirm={() => {
              setDoomed(null);
              void act(deleteProjection(id));
            }}
            onClose={() => setDoomed(null)}
          >
            <p>The rule and its position go. Copies that it made stay as they are, and are no longer kept true.</p>
          </Confirm>
        )}
      </Show>
    </>
  );
}

function Row(props: {
  projection: Projection;
  act: (doing: Promise<unknown>) => Promise<void>;
  onRule: () => void;
  onDelete: () => void;
}): JSX.Element {
  const one = () => props.projection;
  const isRunning = () => one().state === "running";
  const letters = () => one().rule.deadLetters;
  return (
    <tr>
      <th scope="row" class="mono">
        {one().id}
      </th>
      <td>
        <a href={pathOf(["c", one().rule.source.database, one().rule.source.container, "items"])}>
          {one().rule.source.container}
        </a>{" "}
        →{" "}
        <a href={pathOf(["c", one().rule.target.database, one().rule.target.container, "items"])}>
          {one().rule.target.container}
        </a>
      </td>
      <td>
        <span class={isRunning() ? "good" : "warn"}>
          <Icon name={isRunning() ? "good" : "warn"} /> {one().state}
        </span>
        <Show when={one().reason ?? one().lastError}>{(words) => <span class="dim"> {words()}</span>}</Show>
      </td>
      <td class="number">
        {integer(one().lag.changes)} changes, {integer(one().lag.seconds)} s
      </td>
      <td class="number">{integer(one().counts.changes)}</td>
      <td class="number">{integer(one().counts.applied)}</td>
      <td class="number" classList={{ bad: one().counts.deadLetters > 0 }}>
        <Show when={one().counts.deadLetters > 0 && letters()} fallback={integer(one().counts.deadLetters)}>
          <a href={pathOf(["c", one().rule.target.database, letters() ?? "", "items"])}>
            {integer(one().counts.deadLetters)}
          </a>
        </Show>
      </td>
      <td class="do">
        <button type="button" class="plain act" onClick={() => props.onRule()}>
          Rule
        </button>
        <Show when={mayWrite()}>
          <Show
            when={isRunning()}
            fallback={
              <button type="button" class="plain act" onClick={() => void props.act(resumeProjection(one().id))}>
                Resume
              </button>
            }
          >
            <button type="button" class="plain act" onClick={() => void props.act(pauseProjection(one().id))}>
              Pause
            </button>
          </Show>
          <button type="button" class="plain act" onClick={() => props.onDelete()}>
            Delete
          </button>
        </Show>
      </td>
    </tr>
  );
}

function RuleDialog(props: { id: string; text: string; onClose: () => void; onSaved: () => void }): JSX.Element {
  const [id, setId] = createSignal(props.id);
  const [failure, setFailure] = createSignal<unknown>(null);
  let editor = null as Editor | null;
  const save = async () => {
    const text = editor?.text() ?? "";
    const mistake = check(text).find(({ isError }) => isError);
    if (mistake) return editor?.goTo(mistake.at);
    try {
      await putProjection(id(), text);
      props.onSaved();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Dialog title={props.id === "" ? "New projection" : `Rule of ${props.id}`} onClose={props.onClose} isWide>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Saving the rule", error())} />}</Show>
      <Show when={props.id === ""}>
        <div class="form narrow">
          <div class="field">
            <label for="rule-id">Id</label>
            <input id="rule-id" value={id()} onInput={(event) => setId(event.currentTarget.value)} />
          </div>
        </div>
      </Show>
      <div class="dialog-editor">
        <TextEditor
          text={props.text}
          label="Rule"
          language="json"
          isReadOnly={!mayWrite()}
          onReady={(ready) => (editor = ready)}
        />
      </div>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Close
        </button>
        <Show when={mayWrite()}>
          <button type="button" class="primary" disabled={id() === ""} onClick={() => void save()}>
            Save
          </button>
        </Show>
      </div>
    </Dialog>
  );
}
