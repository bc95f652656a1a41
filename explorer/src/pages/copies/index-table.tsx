// Table of global secondary indexes: their lag, their refused items, and the actions of an operator.

import { createSignal, For, Show, type JSX } from "solid-js";
import { deleteContainer } from "../../client/endpoints";
import { orderIndex, type IndexReport } from "../../client/indexes";
import { Confirm, Dialog } from "../../kit/dialog";
import { clock, day, integer, timeOf } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { pathOf } from "../../kit/router";
import { access, mayWrite, refreshTree } from "../../state/account";
import { ACTIONS, consequence, indexState, lagWords, unlistedWords, type IndexAction } from "./copy-words";
import { rowsOf } from "./rows";

type Act = (title: string, doing: Promise<unknown>) => Promise<void>;

export function IndexTable(props: { indexes: IndexReport[]; act: Act }): JSX.Element {
  const [asking, setAsking] = createSignal<{ action: IndexAction; index: IndexReport } | null>(null);
  const [refusals, setRefusals] = createSignal<IndexReport | null>(null);
  const rows = rowsOf(
    () => props.indexes,
    ({ name }) => name,
  );
  const indexesOf = ({ database, container }: IndexReport) =>
    props.indexes.filter((one) => one.database === database && one.source === container).map((one) => one.container);
  const give = async (action: IndexAction, index: IndexReport) => {
    setAsking(null);
    const doing = action === "delete" ? deleteContainer(index.database, index.container) : orderIndex(index, action);
    await props.act(`${ACTIONS[action]} of ${index.container}`, doing);
    if (action === "delete") await refreshTree();
  };
  return (
    <>
      <div class="scroll-x">
        <table class="plain copies">
          <Heads
            names={["Index", "From → to", "Status", { number: "Lag" }, { number: "Rows" }, { number: "Refused" }, "Do"]}
          />
          <tbody>
            <For each={rows.names()}>
              {(name) => {
                const index = rows.of(name);
                return (
                  <Row
                    index={index()}
                    onRefused={() => setRefusals(index())}
                    onAction={(action) => setAsking({ action, index: index() })}
                  />
                );
              }}
            </For>
          </tbody>
        </table>
      </div>
      <Show when={asking()} keyed>
        {({ action, index }) => (
          <Confirm
            title={`${ACTIONS[action]} ${index.container}?`}
            action={`${ACTIONS[action]} the index`}
            typed={action === "delete" ? index.container : undefined}
            onConfirm={() => void give(action, index)}
            onClose={() => setAsking(null)}
          >
            <p>{consequence(action, index, indexesOf(index))}</p>
          </Confirm>
        )}
      </Show>
      <Show when={refusals()} keyed>
        {(index) => <Refusals index={index} onClose={() => setRefusals(null)} />}
      </Show>
    </>
  );
}

function Row(props: {
  index: IndexReport;
  onRefused: () => void;
  onAction: (action: IndexAction) => void;
}): JSX.Element {
  const state = () => indexState(props.index);
  const refused = () => props.index.counts.refused;
  /** The reason of a state is often the last error: once is enough. */
  const lastError = () => (props.index.lastError?.message === props.index.reason ? null : props.index.lastError);
  const actions = (): IndexAction[] => [
    props.index.status === "Paused" ? "resume" : "pause",
    "rebuild",
    ...(access() === "full" ? (["delete"] as const) : []),
  ];
  return (
    <tr>
      <th scope="row" class="mono">
        {props.index.name}
        <code class="definition dim" title={props.index.definition}>
          {props.index.definition}
        </code>
      </th>
      <td>
        <a href={pathOf(["c", props.index.database, props.index.source, "items"])}>{props.index.source}</a> →{" "}
        <a href={pathOf(["c", props.index.database, props.index.container, "items"])}>{props.index.container}</a>
      </td>
      <td class="state">
        <span class={state().tone} title={props.index.status}>
          <Icon name={state().tone} /> {state().title}
        </span>
        <Show when={state().words}>{(words) => <span class="dim"> {words()}</span>}</Show>
        <Show when={props.index.percent !== null}>
          <progress max="100" value={props.index.percent ?? 0} aria-label={`Build of ${props.index.container}`} />
        </Show>
        <Show when={lastError()}>
          {(error) => (
            <span class="last-error dim">
              last error, {day(timeOf(error().time))} {clock(timeOf(error().time))}: {error().message}
            </span>
          )}
        </Show>
      </td>
      <td class="number">{lagWords(props.index.lag)}</td>
      <td class="number">{integer(props.index.rows)}</td>
      <td class="number" classList={{ bad: refused() > 0 }}>
        <Show when={refused() > 0} fallback="0">
          <button
            type="button"
            class="plain act"
            aria-label={`${integer(refused())} refused items of ${props.index.container}`}
            onClick={() => props.onRefused()}
          >
            {integer(refused())}
          </button>
        </Show>
      </td>
      <td class="do">
        <Show when={mayWrite()}>
          <For each={actions()}>
            {(action) => (
              <button type="button" class="plain act" onClick={() => props.onAction(action)}>
                {ACTIONS[action]}
              </button>
            )}
          </For>
        </Show>
      </td>
    </tr>
  );
}

function Refusals(props: { index: IndexReport; onClose: () => void }): JSX.Element {
  const itemPath = (key: unknown, id: string) =>
    pathOf(["c", props.index.database, props.index.source, "items", JSON.stringify(key), id]);
  return (
    <Dialog title={`Items that ${props.index.container} refused`} onClose={props.onClose} isWide>
      <p class="prose">
        These items of '{props.index.source}' lack rows in the index. A write of the item tries again.
      </p>
      <Show when={props.index.refused.length > 0}>
        <div class="scroll-x">
          <table class="plain">
            <Heads names={["Partition key", "Id", "Reason"]} />
            <tbody>
              <For each={props.index.refused}>
                {({ partitionKey, id, reason }) => (
                  <tr>
                    <td class="mono">{JSON.stringify(partitionKey)}</td>
                    <td class="mono">
                      <a href={itemPath(partitionKey, id)}>{id}</a>
                    </td>
                    <td>{reason}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </Show>
      <p class="after dim">{unlistedWords(props.index)}</p>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
