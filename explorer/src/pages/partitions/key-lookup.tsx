// Where is this key? Its partition, its size, its load.

import { createSignal, Show, type JSX } from "solid-js";
import { readKey } from "../../client/key";
import { readKeyPlace, type KeyPlace } from "../../client/reports";
import { bytes, percent, plural, rate } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { pathOf } from "../../kit/router";
import { failureWords } from "../../state/words";

export function KeyLookup(props: { db: string; coll: string; paths: string[] }): JSX.Element {
  const [found, setFound] = createSignal<{ key: string; place: KeyPlace } | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const look = async (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const key = readKey(String(new FormData(event.currentTarget).get("key") ?? ""));
    if (key === null) return;
    setFailure(null);
    try {
      setFound({ key, place: await readKeyPlace(props.db, props.coll, key) });
    } catch (error) {
      setFound(null);
      setFailure(error);
    }
  };
  return (
    <section class="section" aria-labelledby="where">
      <form class="row" onSubmit={(event) => void look(event)}>
        <h2 id="where">
          <label for="where-key" class="strong">
            Where is this key?
          </label>
        </h2>
        <input
          id="where-key"
          name="key"
          class="mono"
          spellcheck={false}
          autocomplete="off"
          placeholder={`value of ${props.paths.join(", ")}`}
        />
        <button type="submit">Look</button>
        <Show when={found()}>
          {(now) => (
            <span role="status">
              <a
                class="mono"
                href={`${pathOf(["c", props.db, props.coll, "items"])}#key=${encodeURIComponent(now().key)}`}
              >
                {now().key}
              </a>{" "}
              lies in partition <b>{now().place.partition}</b>, shard {now().place.shard}, at{" "}
              {now().place.epk.slice(0, 16)} · {plural(now().place.items, "item")}, {bytes(now().place.sizeBytes)} of{" "}
              {bytes(now().place.sizeBytesMax)}
              <Show when={now().place.load}>
                {(load) => (
                  <>
                    {" "}
                    · {rate(load().ru / Math.max(1, load().windowSeconds))} RU/s, {percent(load().share)} of its
                    partition
                  </>
                )}
              </Show>
            </span>
          )}
        </Show>
      </form>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Looking up the key", error())} />}</Show>
    </section>
  );
}
