// Sorting by a column: the expression that stands in the query, and what a press on the head makes of it.

/** The path as a query writes it. */
export const expressionOf = (path: string[]): string =>
  `c${path.map((name) => (/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`)).join("")}`;

export function sortedBy(sort: string, path: string[]): "ascending" | "descending" | "none" {
  const expression = expressionOf(path);
  if (sort === expression || sort === `${expression} ASC`) return "ascending";
  return sort === `${expression} DESC` ? "descending" : "none";
}

/** Ascending, descending, and the order of the hash space again. */
export function nextSort(sort: string, path: string[]): string {
  const next = { none: expressionOf(path), ascending: `${expressionOf(path)} DESC`, descending: "" };
  return next[sortedBy(sort, path)];
}
