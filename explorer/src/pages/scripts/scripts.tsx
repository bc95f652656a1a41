// Scripts: procedures, triggers and functions of a container, edited with their etags and tried out.

import { createSignal, For, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { deleteScript, readScripts, writeScript, type Script, type ScriptKind } from "../../client/scripts";
import type { Editor } from "../../editor/setup";
import { Confirm } from "../../kit/dialog";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { go, place } from "../../kit/router";
import { TextEditor } from "../../parts/text-editor";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { TEMPLATES } from "./templates";
import { TryOut } from "./try-out";

const KINDS: { id: ScriptKind; name: string; one: string }[] = [
  { id: "sprocs", name: "Procedures", one: "procedure" },
  { id: "triggers", name: "Triggers", one: "trigger" },
  { id: "udfs", name: "Functions", one: "function" },
];

export default function Scripts(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const kind = (): ScriptKind => KINDS.find(({ id }) => id === place().segments[4])?.id ?? "sprocs";
  const list = asked((of) => readScripts(db, coll, of), kind);
  const [fresh, setFresh] = createSignal<Script | null>(null);
  const shown = () => fresh() ?? list.value()?.find(({ id }) => id === place().segments[5]);
  const open = (id: string | null) => {
    setFresh(null);
    go(["c", db, coll, "scripts", kind(), ...(id === null ? [] : [id])]);
  };
  return (
    <>
      <h1 class="hidden-label">Scripts of {coll}</h1>
      <div class="toolbar">
        <For each={KINDS}>
          {({ id, name }) => (
            <button
              type="button"
              class="plain tab"
              aria-current={kind() === id ? "page" : undefined}
              onClick={() => {
                setFresh(null);
                go(["c", db, coll, "scripts", id]);
              }}
            >
              {name}
            </button>
          )}
        </For>
        <span class="spacer" />
        <Show when={mayWrite()}>
          <button
            type="button"
            onClick={() =>
              setFresh({ id: "", body: TEMPLATES[kind()], triggerType: "Pre", triggerOperation: "All", _etag: "" })
            }
          >
            <Icon name="plus" /> New
          </button>
        </Show>
      </div>
      <Show when={list.error()}>
        {(error) => <Failed failure={failureWords("Reading the scripts", error())} onRetry={() => void list.again()} />}
      </Show>
      <Show when={list.isLoading()}>
        <Loading words="Reading the scripts" />
      </Show>
      <div class="scripts">
        <nav class="script-list" aria-label="Scripts">
          <For each={list.value()} fallback={<p class="dim">No {KINDS.find(({ id }) => id === kind())?.one}s yet.</p>}>
            {(one) => (
              <button
                type="button"
                class="plain mono"
                aria-current={shown()?.id === one.id ? "true" : undefined}
                onClick={() => open(one.id)}
              >
                {one.id}
              </button>
            )}
          </For>
        </nav>
        <Show
          when={shown()}
          keyed
          fallback={
            <Empty title="No script is open">
              <p>
                Choose one, or make a new one. Scripts run in the server, in one logical partition and one transaction.
              </p>
            </Empty>
          }
        >
          {(one) => (
            <ScriptEditor
              db={db}
              coll={coll}
              kind={kind()}
              script={one}
              onSaved={(saved) => {
                void list.again().then(() => open(saved.id));
              }}
              onDeleted={() => {
                open(null);
                void list.again();
              }}
            />
          )}
        </Show>
      </div>
    </>
  );
}

interface ScriptEditorProps {
  db: string;
  coll: string;
  kind: ScriptKind;
  script: Script;
  onSaved: (script: Script) => void;
  onDeleted: () => void;
}

function ScriptEditor(props: ScriptEditorProps): JSX.Element {
  const { db, coll, kind } = props;
  const isNew = props.script._etag === "";
  const [id, setId] = createSignal(props.script.id);
  const [type, setType] = createSignal(props.script.triggerType ?? "Pre");
  const [operation, setOperation] = createSignal(props.script.triggerOperation ?? "All");
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isDeleting, setDeleting] = createSignal(false);
  let editor = null as Editor | null;
  const body = () => editor?.text() ?? props.script.body;
  const save = async () => {
    setFailure(null);
    const more = kind === "triggers" ? { triggerType: type(), triggerOperation: operation() } : {};
    try {
      props.onSaved(
        await writeScript(db, coll, kind, { id: id(), body: body(), ...more }, isNew ? null : props.script._etag),
      );
    } catch (error) {
      setFailure(error);
    }
  };
  const remove = async () => {
    setDeleting(false);
    try {
      await deleteScript(db, coll, kind, props.script.id, props.script._etag);
      props.onDeleted();
    } catch (error) {
      setFailure(error);
    }
  };
  const saveKey = {
    key: "Mod-s",
    preventDefault: true,
    run: () => {
      if (mayWrite() && id() !== "") void save();
      return true;
    },
  };
  return (
    <section class="column" aria-label={isNew ? "New script" : `Script ${props.script.id}`}>
      <div class="toolbar">
        <Show when={isNew} fallback={<b class="mono">{props.script.id}</b>}>
          <label>
            Id <input class="mono" value={id()} onInput={(event) => setId(event.currentTarget.value)} />
          </label>
        </Show>
        <Show when={kind === "triggers"}>
          <label>
            When{" "}
            <select value={type()} onChange={(event) => setType(event.currentTarget.value)}>
              <option>Pre</option>
              <option>Post</option>
            </select>
          </label>
          <label>
            For{" "}
            <select value={operation()} onChange={(event) => setOperation(event.currentTarget.value)}>
              <For each={["All", "Create", "Replace", "Delete", "Update"]}>{(name) => <option>{name}</option>}</For>
            </select>
          </label>
        </Show>
        <span class="spacer" />
        <Show when={mayWrite()}>
          <button type="button" class="primary" disabled={id() === ""} onClick={() => void save()} title="Ctrl S">
            Save
          </button>
          <Show when={!isNew}>
            <button type="button" class="plain square" aria-label="Delete script" onClick={() => setDeleting(true)}>
              <Icon name="trash" />
            </button>
          </Show>
        </Show>
      </div>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("The script", error())} />}</Show>
      <TextEditor
        text={props.script.body}
        label="Text of the script"
        language="script"
        isReadOnly={!mayWrite()}
        onReady={(ready) => (editor = ready)}
        keys={[saveKey]}
      />
      <Show when={kind === "udfs"}>
        <p class="toolbar dim">
          Queries call it as <code>udf.{id() || "name"}(…)</code>.
        </p>
      </Show>
      <TryOut
        db={db}
        coll={coll}
        kind={kind}
        isAfter={type() === "Post"}
        operation={operation()}
        id={props.script.id}
        isSaved={!isNew}
        body={body}
        onPlace={(line) => {
          const at = editor?.view.state.doc;
          if (at && line >= 1 && line <= at.lines) editor?.goTo(at.line(line).from);
        }}
      />
      <Show when={isDeleting()}>
        <Confirm
          title={`Delete ${props.script.id}?`}
          action="Delete"
          onConfirm={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p>Clients that call it get 404 from then on.</p>
        </Confirm>
      </Show>
    </section>
  );
}
