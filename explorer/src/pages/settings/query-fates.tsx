// What another indexing policy would do to queries that were run here: how each finds its items, and what it would cost.

import { For, Show, type JSX } from "solid-js";
import type { Prospect, QueryFate } from "../../client/schema";
import { ru } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { verdictOf } from "./verdict";

const WAYS: Record<string, string> = {
  nothing: "finds nothing",
  scan: "scan of all items",
  index: "index",
  order: "index, in order",
};

export function QueryFates(props: { fates: QueryFate[] }): JSX.Element {
  return (
    <Show
      when={props.fates.length > 0}
      fallback={
        <p class="dim after">
          No query of this container ran in this browser yet. Those that run on the Query page are judged here.
        </p>
      }
    >
      <div class="scroll-x">
        <table class="plain fit">
          <caption class="hidden-label">What becomes of the latest queries of this browser</caption>
          <Heads
            names={[
              "Query of this browser",
              { number: "RU, last run" },
              "Now",
              { number: "RU, predicted" },
              "Then",
              { number: "RU, predicted" },
              "Verdict",
            ]}
          />
          <tbody>
            <For each={props.fates}>
              {(fate) => (
                <tr>
                  <td class="mono query-cell" title={fate.query}>
                    {fate.query}
                  </td>
                  <td class="number">{charge(fate.measured)}</td>
                  <Cells prospect={fate.now} isWorse={false} />
                  <Cells prospect={fate.then} isWorse={isWorse(fate)} />
                  <td classList={{ warn: isWorse(fate), good: verdictOf(fate) === "cheaper" }}>{verdictOf(fate)}</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </Show>
  );
}

const charge = (charge: number | null): string => (charge === null ? "–" : ru(charge).replace(" RU", ""));

const isWorse = (fate: QueryFate): boolean => ["refused", "dearer", "no index"].includes(verdictOf(fate));

function Cells(props: { prospect: Prospect; isWorse: boolean }): JSX.Element {
  const words = () =>
    props.prospect.refusal !== null ? "refused" : props.prospect.way === null ? "–" : (WAYS[props.prospect.way] ?? "–");
  return (
    <>
      <td classList={{ warn: props.isWorse }} title={props.prospect.refusal ?? undefined}>
        {words()}
      </td>
      <td class="number" classList={{ warn: props.isWorse }}>
        {charge(props.prospect.charge)}
      </td>
    </>
  );
}
