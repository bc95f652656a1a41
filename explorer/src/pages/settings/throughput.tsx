// Throughput: manual or autoscale, and what that means for the partitions.

import { createEffect, createSignal, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { readOffer, replaceOffer } from "../../client/offers";
import { integer } from "../../kit/format";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { containers, mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import type { SectionProps } from "./settings";

const PARTITION_RU_MAX = 10_000;

export function Throughput(props: SectionProps): JSX.Element {
  const offer = asked(() => readOffer(props.read.value._rid));
  const [wanted, setWanted] = createSignal(400);
  const [isAutoscale, setAutoscale] = createSignal(false);
  const [failure, setFailure] = createSignal<unknown>(null);
  createEffect(() => {
    const now = offer.value();
    if (!now) return;
    setWanted(now.autoscaleMax ?? now.throughput);
    setAutoscale(now.autoscaleMax !== null);
  });
  const partitions = () =>
    containers().find(({ database, container }) => database === props.db && container === props.coll)?.partitions ?? 1;
  const needed = () => Math.max(partitions(), Math.ceil(wanted() / PARTITION_RU_MAX));
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    const now = offer.value();
    if (!now) return;
    setFailure(null);
    try {
      await replaceOffer(now, { throughput: wanted(), isAutoscale: isAutoscale() });
      await offer.again();
      props.onSaved();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <div class="pad">
      <Show when={offer.error() ?? failure()}>
        {(error) => <Failed failure={failureWords("The throughput", error())} />}
      </Show>
      <Show when={!offer.isLoading()} fallback={<Loading words="Reading the offer" />}>
        <Show when={offer.value()} fallback={<p>This container shares its database's throughput.</p>}>
          {(now) => (
            <form class="form narrow" onSubmit={(event) => void save(event)}>
              <fieldset class="row" disabled={!mayWrite()}>
                <legend class="hidden-label">Manner</legend>
                <label>
                  <input type="radio" name="manner" checked={!isAutoscale()} onChange={() => setAutoscale(false)} />{" "}
                  manual
                </label>
                <label>
                  <input
                    type="radio"
                    name="manner"
                    checked={isAutoscale()}
                    onChange={() => {
                      setAutoscale(true);
                      setWanted(Math.max(1000, Math.ceil(wanted() / 1000) * 1000));
                    }}
                  />{" "}
                  autoscale
                </label>
              </fieldset>
              <div class="field">
                <label for="ru">{isAutoscale() ? "Maximum RU/s (in steps of 1,000)" : "RU/s (in steps of 100)"}</label>
                <input
                  id="ru"
                  type="number"
                  min={isAutoscale() ? 1000 : now().minimum}
                  step={isAutoscale() ? 1000 : 100}
                  disabled={!mayWrite()}
                  value={wanted()}
                  onInput={(event) => setWanted(Number(event.currentTarget.value))}
                />
              </div>
              <p>
                {integer(partitions())} partitions get {integer(Math.floor(wanted() / partitions()))} RU/s each
                {needed() > partitions() ? `; the server will split them until there are ${needed()}` : ""}.
                {isAutoscale() ? ` Scales between ${integer(wanted() / 10)} and ${integer(wanted())} RU/s by use.` : ""}
              </p>
              <Show when={now().isPending}>
                <p class="warn">A former change is still being worked on: partitions are being split.</p>
              </Show>
              <Show when={mayWrite()}>
                <div class="row">
                  <button
                    type="submit"
                    class="primary"
                    disabled={
                      wanted() === (now().autoscaleMax ?? now().throughput) &&
                      isAutoscale() === (now().autoscaleMax !== null)
                    }
                  >
                    Save
                  </button>
                </div>
              </Show>
            </form>
          )}
        </Show>
      </Show>
    </div>
  );
}
