// What is hottest in a container, from what each of its partitions tells. A key has one partition; a query that was answered
// by several is one query, and its parts are added up.

import type { Partition } from "../../client/reports";

export const HOT_MAX = 10;

export interface HotQuery {
  template: string;
  partitions: string[];
  ru: number;
  /** Of what the queries of all partitions cost. */
  share: number;
}

export function hottestKeys(partitions: Partition[]) {
  const all = partitions.flatMap(({ id, hottestKeys: keys }) => keys.map((key) => ({ ...key, partition: id })));
  return first(all, ({ ru }) => ru);
}

export function largestKeys(partitions: Partition[]) {
  return first(
    partitions.flatMap(({ largestKeys: keys }) => keys),
    ({ sizeBytes }) => sizeBytes,
  );
}

export function dearestQueries(partitions: Partition[]): HotQuery[] {
  const byTemplate = new Map<string, HotQuery>();
  let total = 0;
  for (const { id, hottestQueries } of partitions) {
    const told = hottestQueries.find(({ share }) => share > 0);
    total += told ? told.ru / told.share : 0;
    for (const { template, ru } of hottestQueries) {
      const known = byTemplate.get(template) ?? { template, partitions: [], ru: 0, share: 0 };
      byTemplate.set(template, { ...known, partitions: [...known.partitions, id], ru: known.ru + ru });
    }
  }
  const all = [...byTemplate.values()].map((query) => ({ ...query, share: total > 0 ? query.ru / total : 0 }));
  return first(all, ({ ru }) => ru);
}

const first = <T>(all: T[], weight: (one: T) => number): T[] =>
  all.sort((left, right) => weight(right) - weight(left)).slice(0, HOT_MAX);
