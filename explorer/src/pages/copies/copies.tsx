// Copies that the server keeps true, global secondary indexes and projections: a graph of them, and a table for each kind.

import { createEffect, createMemo, createSignal, onCleanup, Show, type JSX } from "solid-js";
import { readIndexes, type IndexReport } from "../../client/indexes";
import { pretty } from "../../client/json";
import { poll } from "../../client/poll";
import { readProjections, type Projection } from "../../client/projections";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { copiesOf, summary } from "./copy-words";
import { Graph, GRAPH_MAX } from "./graph";
import { IndexTable } from "./index-table";
import { NewIndex } from "./new-index";
import { ProjectionTable } from "./projection-table";
import { NEW_RULE, RuleDialog } from "./rule-dialog";

interface Lists {
  /** Nothing where the server has no indexes. */
  indexes: IndexReport[] | null;
  projections: Projection[];
}

type Opened = { kind: "index" } | { kind: "rule"; id: string; text: string };

const READING = "Reading the copies";

export default function Copies(): JSX.Element {
  const [lists, setLists] = createSignal<Lists | null>(null);
  const [failure, setFailure] = createSignal<{ title: string; error: unknown } | null>(null);
  const [opened, setOpened] = createSignal<Opened | null>(null);
  const read = async () => {
    try {
      const [indexes, projections] = await Promise.all([readIndexes(), readProjections()]);
      setLists({ indexes, projections });
      if (failure()?.title === READING) setFailure(null);
    } catch (error) {
      setFailure({ title: READING, error });
    }
  };
  createEffect(() => onCleanup(poll(2_000, read)));
  const again = async () => {
    setFailure(null);
    await read();
  };
  const act = async (title: string, doing: Promise<unknown>) => {
    setFailure(null);
    await doing.catch((error: unknown) => setFailure({ title, error }));
    await read();
  };
  const copies = createMemo(() => copiesOf(lists()?.indexes ?? [], lists()?.projections ?? []));
  const hasIndexes = () => lists() !== null && lists()?.indexes !== null;
  const open = (id: string, rule: object) => setOpened({ kind: "rule", id, text: pretty(JSON.stringify(rule)) });
  const done = () => {
    setOpened(null);
    void read();
  };
  const buttons = (isPrimary: boolean) => (
    <Show when={mayWrite()}>
      <div class="row">
        <Show when={hasIndexes()}>
          <button type="button" classList={{ primary: isPrimary }} onClick={() => setOpened({ kind: "index" })}>
            <Icon name="plus" /> New index
          </button>
        </Show>
        <button type="button" onClick={() => open("", NEW_RULE)}>
          <Icon name="plus" /> New projection
        </button>
      </div>
    </Show>
  );
  return (
    <>
      <div class="toolbar">
        <h1 class="page-title">Copies</h1>
        <Show when={copies().length > 0}>
          <span class="dim">{summary(copies())}</span>
          <span class="spacer" />
          {buttons(false)}
        </Show>
      </div>
      <Show when={failure()}>
        {(now) => <Failed failure={failureWords(now().title, now().error)} onRetry={() => void again()} />}
      </Show>
      <Show
        when={lists()}
        fallback={
          <Show when={!failure()}>
            <Loading words="Reading the copies" />
          </Show>
        }
      >
        {(now) => (
          <Show
            when={copies().length > 0}
            fallback={
              <Empty title="No copies">
                <Show when={hasIndexes()}>
                  <p>
                    An index is a container whose items the server derives from another container, under another
                    partition key.
                  </p>
                </Show>
                <p>
                  A projection copies members of one container's items into another's, and keeps them true as they
                  change.
                </p>
                {buttons(true)}
              </Empty>
            }
          >
            <Show
              when={copies().length <= GRAPH_MAX}
              fallback={<p class="pad dim">The graph has room for {GRAPH_MAX} copies: the tables list all.</p>}
            >
              <Graph copies={copies()} />
            </Show>
            <Show when={now().indexes}>
              {(indexes) => (
                <section aria-labelledby="indexes" class="copies-of">
                  <h2 id="indexes">Indexes</h2>
                  <Show when={indexes().length > 0} fallback={<p class="dim">None.</p>}>
                    <IndexTable indexes={indexes()} act={act} />
                  </Show>
                </section>
              )}
            </Show>
            <section aria-labelledby="projections" class="copies-of">
              <h2 id="projections">Projections</h2>
              <Show when={now().projections.length > 0} fallback={<p class="dim">None.</p>}>
                <ProjectionTable projections={now().projections} act={act} onRule={({ id, rule }) => open(id, rule)} />
              </Show>
            </section>
          </Show>
        )}
      </Show>
      <Show when={opened()} keyed>
        {(now) =>
          now.kind === "index" ? (
            <NewIndex onClose={() => setOpened(null)} onCreated={done} />
          ) : (
            <RuleDialog id={now.id} text={now.text} onClose={() => setOpened(null)} onSaved={done} />
          )
        }
      </Show>
    </>
  );
}
