// What another indexing policy would do to queries that were run here: how each finds its items, and what it would cost.

import { For, Show, type JSX } from "solid-js";
import type { Prospect, QueryFate } from "../../client/schema";
import { ru } from "../../kit/format";
import { Heads } from "../../kit/heads";

const WAYS: Record<string, string> = {
  nothing: "finds nothing",
  scan: "scan of all items",
  index: "index",
  order: "index, in order",
};

/** Worth a look: refused, or without the index that it had. */
const isWorse = ({ now, then }: QueryFate) =>
  (then.refusal !== null && now.refusal === null) ||
  (then.way === "scan" && now.way !== "scan" && now.way !== null) ||
  (now.charge !== null && then.charge !== null && then.charge > now.charge * 1.1);

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
            names={["Query of this browser", "Now", { number: "RU, predicted" }, "Then", { number: "RU, predicted" }]}
          />
          <tbody>
            <For each={props.fates}>
              {(fate) => (
                <tr>
                  <td class="mono query-cell" title={fate.query}>
                    {fate.query}
                  </td>
                  <Cells prospect={fate.now} isWorse={false} />
                  <Cells prospect={fate.then} isWorse={isWorse(fate)} />
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </Show>
  );
}

function Cells(props: { prospect: Prospect; isWorse: boolean }): JSX.Element {
  const words = () =>
    props.prospect.refusal !== null ? "refused" : props.prospect.way === null ? "–" : (WAYS[props.prospect.way] ?? "–");
  const charge = () => (props.prospect.charge === null ? "–" : ru(props.prospect.charge).replace(" RU", ""));
  return (
    <>
      <td classList={{ warn: props.isWorse }} title={props.prospect.refusal ?? undefined}>
        {words()}
      </td>
      <td class="number" classList={{ warn: props.isWorse }}>
        {charge()}
      </td>
    </>
  );
}
