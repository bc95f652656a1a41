// Places of containers and copies in the graph: a column for each distance from the sources, arrows from left to right.
//
// Copies that would close a cycle are left out of the distances. Their arrows run below all boxes, in a lane each.

export interface GraphEdge {
  from: string;
  to: string;
}

export interface Box {
  name: string;
  column: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Arrow {
  /** Place of the copy in the list that was laid out. */
  edge: number;
  path: string;
  head: string;
  label: { x: number; y: number; anchor: "end" | "middle" };
}

export interface Graph {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
}

const BOX_WIDTH = 190;
const BOX_HEIGHT = 44;
/** Between columns: room for two lines of words about an arrow. */
const COLUMN_GAP = 250;
const ROW_GAP = 20;
const PORT_HEIGHT = 38;
const LANE_HEIGHT = 42;
const MARGIN = 8;
const HEAD = 8;

export function layout(edges: readonly GraphEdge[]): Graph {
  const { order, closing } = depthFirst(edges);
  const columns = distances(edges, order, closing);
  const boxes = placed(edges, columns, closing);
  const bottom = Math.max(0, ...[...boxes.values()].map(({ y, height }) => y + height));
  const forward = edges.flatMap((_, at) => (closing.has(at) ? [] : [at]));
  const right = Math.max(0, ...[...boxes.values()].map(({ x, width }) => x + width));
  return {
    width: right + MARGIN,
    height: bottom + closing.size * LANE_HEIGHT + MARGIN,
    boxes: [...boxes.values()],
    arrows: [
      ...straight(edges, forward, boxes),
      ...[...closing].map((edge, lane) => below(edges, edge, lane, boxes, bottom)),
    ],
  };
}

const byName = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

/** Containers in an order in which each copy that closes no cycle leads to a later one, and the copies that close one. */
function depthFirst(edges: readonly GraphEdge[]): { order: string[]; closing: Set<number> } {
  const names = [...new Set(edges.flatMap(({ from, to }) => [from, to]))].sort(byName);
  const outgoing = new Map<string, number[]>(names.map((name) => [name, []]));
  edges.forEach(({ from }, at) => outgoing.get(from)?.push(at));
  const fed = new Set(edges.flatMap(({ from, to }) => (from === to ? [] : [to])));
  const state = new Map<string, "open" | "done">();
  const closing = new Set<number>();
  const finished: string[] = [];
  for (const start of [...names.filter((name) => !fed.has(name)), ...names]) {
    if (state.has(start)) continue;
    state.set(start, "open");
    // A list and not a recursion: a chain may be as long as there are containers.
    const path = [{ name: start, next: 0 }];
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const edge = outgoing.get(top.name)?.[top.next++];
      if (edge === undefined) {
        state.set(top.name, "done");
        finished.push(top.name);
        path.pop();
        continue;
      }
      const to = edges[edge]?.to ?? "";
      const seen = state.get(to);
      if (seen === "open") closing.add(edge);
      if (seen !== undefined) continue;
      state.set(to, "open");
      path.push({ name: to, next: 0 });
    }
  }
  return { order: finished.reverse(), closing };
}

/** The longest way from a source to each container. */
function distances(edges: readonly GraphEdge[], order: string[], closing: Set<number>): Map<string, number> {
  const columns = new Map(order.map((name) => [name, 0]));
  const outgoing = new Map<string, string[]>(order.map((name) => [name, []]));
  edges.forEach(({ from, to }, at) => !closing.has(at) && outgoing.get(from)?.push(to));
  for (const from of order)
    for (const to of outgoing.get(from) ?? [])
      columns.set(to, Math.max(columns.get(to) ?? 0, (columns.get(from) ?? 0) + 1));
  return columns;
}

const middle = ({ y, height }: Box): number => y + height / 2;

/** Boxes of a column stand below each other, near the middle of the boxes that feed them. */
function placed(edges: readonly GraphEdge[], columns: Map<string, number>, closing: Set<number>): Map<string, Box> {
  const feeding = new Map<string, string[]>();
  edges.forEach(({ from, to }, at) => {
    if (!closing.has(at)) feeding.set(to, [...(feeding.get(to) ?? []), from]);
  });
  const boxes = new Map<string, Box>();
  const inColumns: string[][] = [];
  for (const [name, column] of columns) (inColumns[column] ??= []).push(name);
  for (const [column, names] of inColumns.entries()) {
    const wanted = names
      .map((name) => {
        const sources = (feeding.get(name) ?? []).flatMap((from) => boxes.get(from) ?? []);
        const sum = sources.reduce((all, box) => all + middle(box), 0);
        return { name, near: sources.length > 0 ? sum / sources.length : 0 };
      })
      .sort((left, right) => left.near - right.near || byName(left.name, right.name));
    let free = MARGIN;
    for (const { name, near } of wanted) {
      const height = Math.max(BOX_HEIGHT, (feeding.get(name)?.length ?? 0) * PORT_HEIGHT);
      const y = Math.max(free, near - height / 2);
      const x = MARGIN + column * (BOX_WIDTH + COLUMN_GAP);
      boxes.set(name, { name, column, x, y, width: BOX_WIDTH, height });
      free = y + height + ROW_GAP;
    }
  }
  return boxes;
}

/** Arrows to the right. Each has its own place at both boxes, so that none hides another. */
function straight(edges: readonly GraphEdge[], forward: number[], boxes: Map<string, Box>): Arrow[] {
  const box = (name: string) => boxes.get(name) as Box;
  const ports = (own: "from" | "to", other: "from" | "to") => {
    const groups = new Map<string, number[]>();
    for (const at of forward) {
      const name = edges[at]?.[own] ?? "";
      groups.set(name, [...(groups.get(name) ?? []), at]);
    }
    const places = new Map<number, number>();
    for (const [name, group] of groups) {
      const far = (at: number) => middle(box(edges[at]?.[other] ?? ""));
      group.sort((left, right) => far(left) - far(right) || left - right);
      group.forEach((at, place) => places.set(at, box(name).y + ((place + 0.5) * box(name).height) / group.length));
    }
    return places;
  };
  const [leaving, arriving] = [ports("from", "to"), ports("to", "from")];
  return forward.map((edge) => {
    const { from = "", to = "" } = edges[edge] ?? {};
    const [x1, y1] = [box(from).x + box(from).width, leaving.get(edge) ?? 0];
    const [x2, y2] = [box(to).x, arriving.get(edge) ?? 0];
    // The curve ends early: the words stand above and below a level line.
    const [bend, level] = [x1 + COLUMN_GAP * 0.12, x1 + COLUMN_GAP * 0.24];
    const end = Math.max(level, x2 - COLUMN_GAP * 0.76);
    const path = `M${x1} ${round(y1)}C${bend} ${round(y1)} ${end - 30} ${round(y2)} ${end} ${round(y2)}H${x2 - HEAD}`;
    const head = `M${x2} ${round(y2)}l-${HEAD}-4v8z`;
    return { edge, path, head, label: { x: x2 - HEAD - 6, y: round(y2), anchor: "end" } };
  });
}

function below(
  edges: readonly GraphEdge[],
  edge: number,
  lane: number,
  boxes: Map<string, Box>,
  bottom: number,
): Arrow {
  const { from = "", to = "" } = edges[edge] ?? {};
  const [source, target] = [boxes.get(from) as Box, boxes.get(to) as Box];
  const shift = 30 + (lane % 5) * 10;
  const [x1, y1] = [source.x + source.width - shift, source.y + source.height];
  const [x2, y2] = [target.x + shift, target.y + target.height];
  const y = bottom + (lane + 0.5) * LANE_HEIGHT;
  const path = `M${x1} ${round(y1)}V${round(y)}H${x2}V${round(y2 + HEAD)}`;
  const head = `M${x2} ${round(y2)}l-4 ${HEAD}h8z`;
  return { edge, path, head, label: { x: (x1 + x2) / 2, y: round(y), anchor: "middle" } };
}

const round = (value: number): number => Math.round(value * 10) / 10;
