// Containers as boxes and copies as arrows. The tables below it have the same facts as text.

import { createMemo, For, type JSX } from "solid-js";
import { plural } from "../../kit/format";
import { arrowWords, type Copy } from "./copy-words";
import { layout } from "./graph-layout";

/** More are no picture. */
export const GRAPH_MAX = 80;
/** Characters of a name and of a line about an arrow that have room. */
const NAME_MAX = 23;
const WORDS_MAX = 34;

const cut = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

export function Graph(props: { copies: Copy[] }): JSX.Element {
  // Lags change all the time, places seldom.
  const edges = createMemo(() => props.copies.map(({ from, to }) => ({ from, to })), undefined, {
    equals: (left, right) => JSON.stringify(left) === JSON.stringify(right),
  });
  const graph = createMemo(() => layout(edges()));
  const words = () =>
    `Graph of ${plural(graph().boxes.length, "container")}; the tables below name the source of each copy, its state and its lag`;
  const arrow = (edge: number) => {
    const copy = props.copies[edge];
    return copy ? arrowWords(copy) : { above: "", below: "", tone: "good" as const };
  };
  return (
    <div class="graph scroll-x" role="region" aria-label="Graph of the copies" tabindex="0">
      <svg width={graph().width} height={graph().height} role="img" aria-label={words()}>
        <For each={graph().arrows}>
          {({ edge, path, head, label }) => (
            <g class={`arrow ${arrow(edge).tone} ${props.copies[edge]?.kind ?? ""}`}>
              <path d={path} />
              <path class="head" d={head} />
              <text x={label.x} y={label.y - 6} text-anchor={label.anchor}>
                <title>{arrow(edge).above}</title>
                {cut(arrow(edge).above, WORDS_MAX)}
              </text>
              <text class="dim" x={label.x} y={label.y + 15} text-anchor={label.anchor}>
                <title>{arrow(edge).below}</title>
                {cut(arrow(edge).below, WORDS_MAX)}
              </text>
            </g>
          )}
        </For>
        <For each={graph().boxes}>
          {({ name, x, y, width, height }) => (
            <g class="box">
              <title>{name}</title>
              <rect x={x} y={y} width={width} height={height} rx="4" />
              <text class="mono" x={x + 10} y={y + height / 2 - 3}>
                {cut(name.slice(name.indexOf("/") + 1), NAME_MAX)}
              </text>
              <text class="dim" x={x + 10} y={y + height / 2 + 14}>
                {cut(name.slice(0, name.indexOf("/")), NAME_MAX)}
              </text>
            </g>
          )}
        </For>
      </svg>
    </div>
  );
}
