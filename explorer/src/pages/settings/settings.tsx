// Settings of a container: what it is, its throughput, indexing, time to live, and its end.

import { createSignal, For, Match, Show, Switch, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { readDefinition, type Definition, type Read } from "../../client/endpoints";
import { pretty } from "../../client/json";
import { bytes, integer } from "../../kit/format";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { place, setState } from "../../kit/router";
import { TextEditor } from "../../parts/text-editor";
import { access, containers, mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { Danger } from "./danger";
import { Feeds } from "./feeds";
import { Indexing } from "./indexing";
import { Throughput } from "./throughput";
import { TimeToLive } from "./time-to-live";

const SECTIONS = [
  { id: "overview", name: "Overview" },
  { id: "throughput", name: "Throughput" },
  { id: "indexing", name: "Indexing" },
  { id: "ttl", name: "Time to live" },
  { id: "definition", name: "Definition" },
  { id: "danger", name: "Delete" },
];

export interface SectionProps {
  db: string;
  coll: string;
  read: Read<Definition>;
  onSaved: () => void;
}

export default function Settings(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const read = asked(() => readDefinition(db, coll));
  const [savedAt, setSavedAt] = createSignal<Date | null>(null);
  const sections = () => SECTIONS.filter(({ id }) => id !== "danger" || (mayWrite() && access() === "full"));
  const section = () => sections().find(({ id }) => id === place().state["section"])?.id ?? "overview";
  const onSaved = () => {
    setSavedAt(new Date());
    void read.again();
  };
  return (
    <>
      <h1 class="hidden-label">Settings of {coll}</h1>
      <nav class="toolbar" aria-label="Sections">
        <For each={sections()}>
          {({ id, name }) => (
            <button
              type="button"
              class="plain tab"
              aria-current={section() === id ? "page" : undefined}
              onClick={() => setState({ section: id })}
            >
              {name}
            </button>
          )}
        </For>
        <span class="spacer" />
        <Show when={savedAt()}>
          <span class="good" role="status">
            Saved
          </span>
        </Show>
      </nav>
      <Show when={read.error()}>
        {(error) => <Failed failure={failureWords(`Reading ${coll}`, error())} onRetry={() => void read.again()} />}
      </Show>
      <Show
        when={read.value()}
        fallback={
          <Show when={read.isLoading()}>
            <Loading words="Reading the definition" />
          </Show>
        }
      >
        {(now) => (
          <Switch>
            <Match when={section() === "overview"}>
              <Overview db={db} coll={coll} read={now()} />
            </Match>
            <Match when={section() === "throughput"}>
              <Throughput db={db} coll={coll} read={now()} onSaved={onSaved} />
            </Match>
            <Match when={section() === "indexing"}>
              <Indexing db={db} coll={coll} read={now()} onSaved={onSaved} />
            </Match>
            <Match when={section() === "ttl"}>
              <TimeToLive db={db} coll={coll} read={now()} onSaved={onSaved} />
            </Match>
            <Match when={section() === "definition"}>
              <p class="pad dim">The whole definition, as the server tells it.</p>
              <TextEditor text={pretty(now().text)} label="Definition" language="json" isReadOnly />
            </Match>
            <Match when={section() === "danger"}>
              <Danger db={db} coll={coll} />
            </Match>
          </Switch>
        )}
      </Show>
    </>
  );
}

function Overview(props: { db: string; coll: string; read: Read<Definition> }): JSX.Element {
  const row = () => containers().find(({ database, container }) => database === props.db && container === props.coll);
  const definition = () => props.read.value;
  const unique = () => definition().uniqueKeyPolicy?.uniqueKeys.map(({ paths }) => paths.join(" + ")) ?? [];
  const retention = () => definition().changeFeedPolicy?.retentionDuration ?? 0;
  return (
    <div class="pad">
      <dl class="facts">
        <dt>Partition key</dt>
        <dd class="mono">{definition().partitionKey.paths.join(" ")}</dd>
        <dt>Kind</dt>
        <dd>
          {definition().partitionKey.kind}, version {definition().partitionKey.version ?? 1}. It cannot change: items
          are placed by it.
        </dd>
        <dt>Items</dt>
        <dd>{row() ? `${integer(row()?.items ?? 0)}, ${bytes(row()?.sizeBytes ?? 0)}` : "–"}</dd>
        <dt>Partitions</dt>
        <dd>{row() ? integer(row()?.partitions ?? 0) : "–"}</dd>
        <Feeds db={props.db} coll={props.coll} />
        <dt>Unique keys</dt>
        <dd class="mono">{unique().length > 0 ? unique().join(", ") : "none"}</dd>
        <dt>All versions</dt>
        <dd>
          {retention() > 0 ? `kept for ${retention()} minutes` : "not kept: the change feed tells the latest versions"}
        </dd>
        <dt>Resource id</dt>
        <dd class="mono">{definition()._rid}</dd>
        <dt>Etag</dt>
        <dd class="mono">{definition()._etag}</dd>
      </dl>
    </div>
  );
}
