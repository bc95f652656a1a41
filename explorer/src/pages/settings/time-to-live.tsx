// Time to live: off, on for items that say so, or a default; with the count of items that would be gone now.

import { createSignal, Show, type JSX } from "solid-js";
import { queryItems, replaceDefinition } from "../../client/endpoints";
import { integer, ru } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { withMember } from "../../client/definition";
import type { SectionProps } from "./settings";

type Manner = "off" | "on" | "default";
const mannerOf = (ttl: number | undefined): Manner => (ttl === undefined ? "off" : ttl === -1 ? "on" : "default");

export function TimeToLive(props: SectionProps): JSX.Element {
  const stored = () => props.read.value.defaultTtl;
  const [manner, setManner] = createSignal(mannerOf(stored()));
  const [seconds, setSeconds] = createSignal(stored() && stored() !== -1 ? (stored() as number) : 86_400);
  const [gone, setGone] = createSignal<{ count: number; charge: number } | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const wanted = () => (manner() === "off" ? null : manner() === "on" ? "-1" : String(seconds()));
  const isChanged = () => wanted() !== (stored() === undefined ? null : String(stored()));

  const count = async () => {
    setFailure(null);
    try {
      const limit = Math.floor(Date.now() / 1000) - seconds();
      const page = await queryItems(props.db, props.coll, {
        text: `SELECT VALUE COUNT(1) FROM c WHERE c._ts < ${limit} AND NOT IS_DEFINED(c.ttl)`,
        maxItems: 1,
      });
      setGone({ count: Number(page.rows[0] ?? "0"), charge: page.charge });
    } catch (error) {
      setFailure(error);
    }
  };
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    setFailure(null);
    try {
      await replaceDefinition(
        props.db,
        props.coll,
        withMember(props.read.text, "defaultTtl", wanted()),
        props.read.etag,
      );
      props.onSaved();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <div class="pad">
      <Show when={failure()}>{(error) => <Failed failure={failureWords("The time to live", error())} />}</Show>
      <form class="form narrow" onSubmit={(event) => void save(event)}>
        <fieldset class="form" disabled={!mayWrite()}>
          <legend class="hidden-label">Time to live</legend>
          <label>
            <input type="radio" name="ttl" checked={manner() === "off"} onChange={() => setManner("off")} /> off: items
            stay, also those with a <code>ttl</code>
          </label>
          <label>
            <input type="radio" name="ttl" checked={manner() === "on"} onChange={() => setManner("on")} /> on: items
            with a <code>ttl</code> of their own go
          </label>
          <label>
            <input type="radio" name="ttl" checked={manner() === "default"} onChange={() => setManner("default")} />{" "}
            default for items without one
          </label>
          <Show when={manner() === "default"}>
            <div class="field">
              <label for="ttl-seconds">Seconds after the last change</label>
              <input
                id="ttl-seconds"
                type="number"
                min="1"
                max="2147483647"
                value={seconds()}
                onInput={(event) => {
                  setSeconds(Number(event.currentTarget.value));
                  setGone(null);
                }}
              />
            </div>
            <div class="row">
              <button type="button" onClick={() => void count()}>
                Count what would be gone now
              </button>
              <Show when={gone()}>
                {(found) => (
                  <span role="status">
                    <b>{integer(found().count)} items</b> would be gone at once · {ru(found().charge)}
                  </span>
                )}
              </Show>
            </div>
          </Show>
        </fieldset>
        <Show when={mayWrite()}>
          <div class="row">
            <button type="submit" class="primary" disabled={!isChanged()}>
              Save
            </button>
          </div>
        </Show>
      </form>
    </div>
  );
}
