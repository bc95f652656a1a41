// Why a query is dear: its plan as boxes with figures, its cost by partition, its indexes.

import { createMemo, For, Show, type JSX } from "solid-js";
import type { IndexUse, PlanBox, QueryPage, RangeFigures } from "../../client/query";
import { integer, milliseconds, percent, ru } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { figureWords, together } from "./plan-words";

interface PlanProps {
  boxes: PlanBox[];
  /** Partitions whose figures are summed. */
  partitions: number;
  advice: { id: string; words: string }[];
}

export function Plan(props: PlanProps): JSX.Element {
  const dearest = createMemo(() => {
    const times = props.boxes.map(({ figures }) => figures?.timeUs ?? 0);
    const most = Math.max(...times, 0);
    return most > 0 ? times.indexOf(most) : -1;
  });
  const total = createMemo(() => props.boxes.reduce((sum, { figures }) => sum + (figures?.timeUs ?? 0), 0));
  return (
    <div class="pad scroll">
      <Show when={!props.boxes.some(({ figures }) => figures)}>
        <p class="dim">The plan alone: the query did not run and cost nothing.</p>
      </Show>
      <Show when={total() > 0 && props.partitions > 1}>
        <p class="dim">
          Times and figures are sums over {props.partitions} partitions, which worked side by side: they exceed the time
          of the whole.
        </p>
      </Show>
      <ol class="plan" aria-label="Plan, from the stored items to the rows">
        <For each={props.boxes}>
          {(box, at) => (
            <li class="plan-box" classList={{ dear: at() === dearest() }}>
              <b>{box.kind}</b>
              <span class="mono plan-label">{box.label}</span>
              <Show when={box.figures}>
                {(figures) => (
                  <>
                    <Show when={figures().timeUs !== null && total() > 0}>
                      <span class="meter plan-meter" aria-hidden="true">
                        <span style={{ width: `${((figures().timeUs ?? 0) / total()) * 100}%` }} />
                      </span>
                      <span>
                        {milliseconds((figures().timeUs ?? 0) / 1000)}
                        {box.kind === "merge" ? "" : together(props.partitions)} ·{" "}
                        {percent((figures().timeUs ?? 0) / total())} of the time
                      </span>
                    </Show>
                    <span class="dim">{figureWords(figures())}</span>
                  </>
                )}
              </Show>
              <Show when={at() === dearest()}>
                <span class="warn">
                  <Icon name="warn" /> the dearest stage
                </span>
              </Show>
            </li>
          )}
        </For>
      </ol>
      <For each={props.advice}>
        {({ words }) => (
          <p>
            <span class="warn">
              <Icon name="info" />
            </span>{" "}
            {words}
          </p>
        )}
      </For>
    </div>
  );
}

export function RangeBars(props: { ranges: RangeFigures[]; charge: number; link: string }): JSX.Element {
  const sorted = createMemo(() => [...props.ranges].sort((left, right) => right.charge - left.charge));
  const most = () => sorted()[0]?.charge ?? 1;
  return (
    <div class="pad scroll">
      <p>
        {skewWords(sorted(), props.charge)} <a href={props.link}>See the heat</a>
      </p>
      <div class="scroll-x">
        <table class="plain ranges">
          <Heads
            names={[
              "Partition",
              "Charge",
              { number: "RU" },
              { number: "Share" },
              { number: "Time" },
              { number: "Rows" },
              { number: "Items read" },
              { number: "Postings" },
              "Access",
            ]}
          />
          <tbody>
            <For each={sorted()}>
              {(range) => (
                <tr>
                  <th scope="row">{range.id}</th>
                  <td>
                    <span class="meter" aria-hidden="true">
                      <span style={{ width: `${(range.charge / most()) * 100}%` }} />
                    </span>
                  </td>
                  <td class="number">{ru(range.charge).replace(" RU", "")}</td>
                  <td class="number">{percent(props.charge > 0 ? range.charge / props.charge : 0)}</td>
                  <td class="number">{milliseconds(range.elapsedMs)}</td>
                  <td class="number">{range.rows === null ? "merged" : integer(range.rows)}</td>
                  <td class="number">{integer(range.items)}</td>
                  <td class="number">{integer(range.postings)}</td>
                  <td class="mono">{range.access}</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </div>
  );
}

function skewWords(sorted: RangeFigures[], charge: number): string {
  const first = sorted[0];
  if (!first || sorted.length < 2 || charge === 0) return "One partition answered.";
  const share = first.charge / charge;
  const fair = 1 / sorted.length;
  if (share < fair * 1.25) return `The cost lies evenly on ${sorted.length} partitions.`;
  return `Partition ${first.id} has ${percent(share)} of the cost, ${(share / fair).toFixed(1)} times its even part.`;
}

export function Indexes(props: { page: QueryPage | null; link: string }): JSX.Element {
  const words = (use: IndexUse) => use.path ?? use.paths?.join(", ") ?? "";
  const List = (list: { title: string; uses: IndexUse[]; none: string }): JSX.Element => (
    <>
      <h2>{list.title}</h2>
      <ul class="reasons">
        <For each={list.uses} fallback={<li class="dim">{list.none}</li>}>
          {(use) => (
            <li>
              <span class="mono">{words(use)}</span> <span class="dim">{use.kind}</span>
            </li>
          )}
        </For>
      </ul>
    </>
  );
  return (
    <div class="pad scroll">
      <List title="Used" uses={props.page?.indexes?.used ?? []} none="none: every item in scope was read" />
      <List title="Would help" uses={props.page?.indexes?.possible ?? []} none="none" />
      <Show when={(props.page?.indexes?.possible ?? []).length > 0}>
        <p>
          <a href={props.link}>Change the indexing policy</a>
        </p>
      </Show>
      <Show when={props.page?.metrics}>
        {(metrics) => (
          <details>
            <summary>Metrics of the last page</summary>
            <pre>{metrics().replaceAll(";", "\n")}</pre>
          </details>
        )}
      </Show>
    </div>
  );
}
