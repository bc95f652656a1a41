// Table of projections: their lag, their dead letters, and their rules.

import { createSignal, For, Show, type JSX } from "solid-js";
import { deleteProjection, pauseProjection, resumeProjection, type Projection } from "../../client/projections";
import { Confirm } from "../../kit/dialog";
import { integer } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { pathOf } from "../../kit/router";
import { mayWrite } from "../../state/account";
import { lagWords, projectionTone } from "./copy-words";
import { rowsOf } from "./rows";

type Act = (title: string, doing: Promise<unknown>) => Promise<void>;

export function ProjectionTable(props: {
  projections: Projection[];
  act: Act;
  onRule: (projection: Projection) => void;
}): JSX.Element {
  const [doomed, setDoomed] = createSignal<string | null>(null);
  const rows = rowsOf(
    () => props.projections,
    ({ id }) => id,
  );
  return (
    <>
      <div class="scroll-x">
        <table class="plain copies">
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
            <For each={rows.names()}>
              {(id) => {
                const projection = rows.of(id);
                return (
                  <Row
                    projection={projection()}
                    act={props.act}
                    onRule={() => props.onRule(projection())}
                    onDelete={() => setDoomed(id)}
                  />
                );
              }}
            </For>
          </tbody>
        </table>
      </div>
      <Show when={doomed()} keyed>
        {(id) => (
          <Confirm
            title={`Delete ${id}?`}
            action="Delete the rule"
            onConfirm={() => {
              setDoomed(null);
              void props.act(`Delete of ${id}`, deleteProjection(id));
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

function Row(props: { projection: Projection; act: Act; onRule: () => void; onDelete: () => void }): JSX.Element {
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
      <td class="state">
        <span class={projectionTone(one().state)}>
          <Icon name={projectionTone(one().state)} /> {one().state}
        </span>
        <Show when={one().reason ?? one().lastError}>{(words) => <span class="dim"> {words()}</span>}</Show>
      </td>
      <td class="number">{lagWords(one().lag)}</td>
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
              <button
                type="button"
                class="plain act"
                onClick={() => void props.act(`Resume of ${one().id}`, resumeProjection(one().id))}
              >
                Resume
              </button>
            }
          >
            <button
              type="button"
              class="plain act"
              onClick={() => void props.act(`Pause of ${one().id}`, pauseProjection(one().id))}
            >
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
