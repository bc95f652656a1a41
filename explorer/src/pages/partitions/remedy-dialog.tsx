// A remedy before it is done: what will happen, what clients will notice, and the choice that is left.

import { createMemo, createSignal, For, Show, type JSX } from "solid-js";
import { merge, move, redistribute, split, type Report } from "../../client/reports";
import { Dialog } from "../../kit/dialog";
import { integer, percent } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { server } from "../../state/account";
import { failureWords } from "../../state/words";
import { remedyTitle, sharesOf, withShare, type Remedy } from "./remedies";

interface RemedyDialogProps {
  remedy: Remedy;
  report: Report;
  onClose: () => void;
  onDone: () => void;
}

const CUTS = [
  { at: "best", words: "where the load halves if it is uneven, else in the middle" },
  { at: "load", words: "where the load of the last ten minutes halves" },
  { at: "size", words: "where the bytes halve" },
  { at: "middle", words: "in the middle of the hashes" },
];
const PARTITION_RU_MAX = 10_000;

export function RemedyDialog(props: RemedyDialogProps): JSX.Element {
  const { remedy, report } = props;
  const { database: db, container: coll } = report;
  const [at, setAt] = createSignal(remedy.kind === "split" ? remedy.at : "best");
  const [shard, setShard] = createSignal(0);
  const [shares, setShares] = createSignal(
    remedy.kind === "shares" && Object.keys(remedy.shares).length > 0
      ? { ...sharesOf(report), ...remedy.shares }
      : sharesOf(report),
  );
  const [failure, setFailure] = createSignal<unknown>(null);
  const [isBusy, setBusy] = createSignal(false);

  const run = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      if (remedy.kind === "split") await split(db, coll, remedy.partition, at());
      if (remedy.kind === "merge") await merge(db, coll, remedy.partitions);
      if (remedy.kind === "move") await move(db, coll, remedy.partition, shard());
      if (remedy.kind === "shares") await redistribute(db, coll, shares());
      props.onDone();
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };

  return (
    <Dialog title={remedyTitle(remedy)} onClose={props.onClose}>
      <Show when={failure()}>{(error) => <Failed failure={failureWords(remedyTitle(remedy), error())} />}</Show>
      <form onSubmit={(event) => void run(event)}>
        <Show when={remedy.kind === "split"}>
          <CutChoice at={at()} onAt={setAt} bound={remedy.kind === "split" ? remedy.at : ""} />
        </Show>
        <Show when={remedy.kind === "move"}>
          <div class="field">
            <label for="shard">To shard</label>
            <select id="shard" onChange={(event) => setShard(Number(event.currentTarget.value))}>
              <For each={server()?.shards ?? [{ number: 0 }]}>
                {({ number }) => <option value={number}>{number}</option>}
              </For>
            </select>
          </div>
        </Show>
        <Show when={remedy.kind === "shares"}>
          <Sliders report={report} shares={shares()} onShares={setShares} />
        </Show>
        <div class="prose">
          <Show
            when={remedy.kind !== "shares"}
            fallback={<p>In force at once. Clients notice nothing but fewer or more refusals.</p>}
          >
            <p>
              The data is copied while it is used. At the end, writers are held for a few milliseconds; requests for a
              key notice nothing else. It can be given up until then.
            </p>
          </Show>
          <Show when={"predicted" in remedy && remedy.predicted}>
            {(words) => (
              <p>
                <b>Predicted: {words()}</b>
              </p>
            )}
          </Show>
        </div>
        <div class="actions">
          <button type="button" onClick={() => props.onClose()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy()}>
            {remedy.kind === "shares" ? "Divide" : remedy.kind[0]?.toUpperCase() + remedy.kind.slice(1)}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function CutChoice(props: { at: string; onAt: (at: string) => void; bound: string }): JSX.Element {
  const cuts = () =>
    CUTS.some(({ at }) => at === props.bound)
      ? CUTS
      : [{ at: props.bound, words: `at the bound ${props.bound}` }, ...CUTS];
  return (
    <fieldset class="form">
      <legend>Cut</legend>
      <For each={cuts()}>
        {(cut) => (
          <label>
            <input type="radio" name="cut" checked={props.at === cut.at} onChange={() => props.onAt(cut.at)} />{" "}
            {cut.words}
          </label>
        )}
      </For>
    </fieldset>
  );
}

function Sliders(props: {
  report: Report;
  shares: Record<string, number>;
  onShares: (shares: Record<string, number>) => void;
}): JSX.Element {
  const total = createMemo(() => Object.values(props.shares).reduce((sum, share) => sum + share, 0));
  const ids = props.report.partitions.map(({ id }) => id);
  const most = Math.min(PARTITION_RU_MAX, total());
  return (
    <fieldset class="form">
      <legend>RU/s of each partition; the sum stays {integer(total())}</legend>
      <For each={ids}>
        {(id) => (
          <div class="slider">
            <label for={`share-${id}`}>partition {id}</label>
            <input
              id={`share-${id}`}
              type="range"
              min="1"
              max={most}
              value={props.shares[id] ?? 0}
              onInput={(event) => props.onShares(withShare(props.shares, id, Number(event.currentTarget.value), most))}
            />
            <output for={`share-${id}`}>
              {integer(props.shares[id] ?? 0)} · {percent((props.shares[id] ?? 0) / Math.max(1, total()))}
            </output>
          </div>
        )}
      </For>
    </fieldset>
  );
}
