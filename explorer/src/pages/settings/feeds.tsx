// Copies that a container feeds, and those that feed it: indexes and projections, with links. Nothing without any.

import { For, Show, type JSX } from "solid-js";
import { readIndexes } from "../../client/indexes";
import { readProjections } from "../../client/projections";
import { asked } from "../../kit/asked";
import { pathOf } from "../../kit/router";

interface Link {
  database: string;
  container: string;
  /** The kind of the copy, with its name where it is not the container's. */
  words: string;
}

export function Feeds(props: { db: string; coll: string }): JSX.Element {
  const copies = asked(async () => {
    // The rest of the page does without these lists, so a failure leaves the lines out.
    const [indexes, projections] = await Promise.all([readIndexes(), readProjections()]).catch(
      () => [null, []] as const,
    );
    return [
      ...(indexes ?? []).map(({ database, source, container }) => ({
        from: { database, container: source },
        to: { database, container },
        words: "index",
      })),
      ...projections.map(({ id, rule }) => ({ from: rule.source, to: rule.target, words: `projection ${id}` })),
    ];
  });
  const isHere = ({ database, container }: { database: string; container: string }) =>
    database === props.db && container === props.coll;
  const feeds = () =>
    (copies.value() ?? []).filter(({ from }) => isHere(from)).map(({ to, words }): Link => ({ ...to, words }));
  const fedBy = () =>
    (copies.value() ?? []).filter(({ to }) => isHere(to)).map(({ from, words }): Link => ({ ...from, words }));
  return (
    <>
      <Links name="Feeds" links={feeds()} />
      <Links name="Is fed by" links={fedBy()} />
    </>
  );
}

function Links(props: { name: string; links: Link[] }): JSX.Element {
  return (
    <Show when={props.links.length > 0}>
      <dt>{props.name}</dt>
      <dd>
        <For each={props.links}>
          {({ database, container, words }, at) => (
            <>
              {at() > 0 ? ", " : ""}
              <a href={pathOf(["c", database, container, "items"])}>{container}</a> ({words})
            </>
          )}
        </For>
      </dd>
    </Show>
  );
}
