// The end of a container: its name is typed first.

import { createSignal, Show, type JSX } from "solid-js";
import { deleteContainer } from "../../client/endpoints";
import { Confirm } from "../../kit/dialog";
import { bytes, integer } from "../../kit/format";
import { Failed } from "../../kit/pane";
import { go } from "../../kit/router";
import { containers, refreshTree } from "../../state/account";
import { failureWords } from "../../state/words";

export function Danger(props: { db: string; coll: string }): JSX.Element {
  const [isAsking, setAsking] = createSignal(false);
  const [failure, setFailure] = createSignal<unknown>(null);
  const row = () => containers().find(({ database, container }) => database === props.db && container === props.coll);
  const remove = async () => {
    setAsking(false);
    try {
      await deleteContainer(props.db, props.coll);
      await refreshTree();
      go([]);
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <div class="pad">
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Deleting the container", error())} />}</Show>
      <p>
        Deletes the container with its {integer(row()?.items ?? 0)} items, {bytes(row()?.sizeBytes ?? 0)}, its scripts
        and its change log. Nothing brings it back but a backup.
      </p>
      <button type="button" class="danger" onClick={() => setAsking(true)}>
        Delete {props.coll}
      </button>
      <Show when={isAsking()}>
        <Confirm
          title={`Delete ${props.coll}?`}
          typed={props.coll}
          action="Delete the container"
          onConfirm={() => void remove()}
          onClose={() => setAsking(false)}
        >
          <p>
            {integer(row()?.items ?? 0)} items of {props.db} / {props.coll} go for good.
          </p>
        </Confirm>
      </Show>
    </div>
  );
}
