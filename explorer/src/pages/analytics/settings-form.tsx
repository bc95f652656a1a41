// Settings of an analytical store: how long rows stay, and its schema, paths and lag.

import { createSignal, Show, type JSX } from "solid-js";
import type { TableReport, TableSettings } from "../../client/analytics";
import { bodyOf, lines, textsOf, type SettingTexts } from "./settings-text";

export interface SettingsProps {
  report: TableReport;
  isWorking: boolean;
  onPolicy: (ttl: number) => void;
  onSettings: (settings: TableSettings, rebuild: boolean) => void;
}

export function Settings(props: SettingsProps): JSX.Element {
  return (
    <section class="card" aria-labelledby="settings">
      <h2 id="settings">Settings</h2>
      <Policy {...props} />
      <Own {...props} />
    </section>
  );
}

function Policy(props: SettingsProps): JSX.Element {
  const stored = () => props.report.ttl;
  const [isTimed, setTimed] = createSignal(stored() > 0);
  const [seconds, setSeconds] = createSignal(stored() > 0 ? stored() : 2_592_000);
  const wanted = () => (isTimed() ? seconds() : -1);
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    props.onPolicy(wanted());
  };
  return (
    <form class="form narrow after" aria-label="Rows stay" onSubmit={save}>
      <fieldset class="form" disabled={props.isWorking}>
        <legend>Rows stay</legend>
        <label>
          <input type="radio" name="rows-stay" checked={!isTimed()} onChange={() => setTimed(false)} /> until their item
          is deleted
        </label>
        <label>
          <input type="radio" name="rows-stay" checked={isTimed()} onChange={() => setTimed(true)} /> for a time
        </label>
        <Show when={isTimed()}>
          <div class="field">
            <label for="row-seconds">Seconds after the last write of their item</label>
            <input
              id="row-seconds"
              type="number"
              min="1"
              max="2147483647"
              required
              value={seconds()}
              onInput={(event) => setSeconds(Number(event.currentTarget.value))}
            />
          </div>
        </Show>
      </fieldset>
      <div class="row">
        <button type="submit" disabled={props.isWorking || wanted() === stored()}>
          Save the time
        </button>
      </div>
    </form>
  );
}

/** The server checks the values, so that its errors name the rule. */
function Own(props: SettingsProps): JSX.Element {
  const stored = () => textsOf(props.report.settings);
  const [texts, setTexts] = createSignal<SettingTexts>(stored());
  const [isRebuilt, setRebuilt] = createSignal(false);
  const set = (change: Partial<SettingTexts>) => setTexts({ ...texts(), ...change });
  const isChanged = () => JSON.stringify(bodyOf(texts())) !== JSON.stringify(bodyOf(stored()));
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    props.onSettings(bodyOf(texts()), isRebuilt());
    setRebuilt(false);
  };
  return (
    <form class="form narrow" aria-label="Columns, order and lag" noValidate onSubmit={save}>
      <fieldset class="form" disabled={props.isWorking}>
        <legend>Columns, order and lag</legend>
        <div class="field">
          <label for="schema">Schema</label>
          <select
            id="schema"
            value={texts().schema}
            onChange={(event) => set({ schema: event.currentTarget.value as SettingTexts["schema"] })}
          >
            <option value="wellDefined">well-defined: one type for a property</option>
            <option value="fullFidelity">full fidelity: a field for each type</option>
          </select>
        </div>
        <Paths
          id="cluster-by"
          label="Order of rows, by paths (none: the partition key)"
          text={texts().clusterBy}
          onInput={(clusterBy) => set({ clusterBy })}
        />
        <Paths
          id="exclude"
          label="Paths that are not copied"
          text={texts().exclude}
          onInput={(exclude) => set({ exclude })}
        />
        <div class="field">
          <label for="lag">Seconds between two versions (empty: the server's default)</label>
          <input
            id="lag"
            inputmode="numeric"
            value={texts().lagSeconds}
            onInput={(event) => set({ lagSeconds: event.currentTarget.value })}
          />
        </div>
        <label>
          <input type="checkbox" checked={isRebuilt()} onChange={(event) => setRebuilt(event.currentTarget.checked)} />{" "}
          rebuild the table: a new schema requires it, and rows that exist get the new columns
        </label>
      </fieldset>
      <div class="row">
        <button type="submit" disabled={props.isWorking || !(isChanged() || isRebuilt())}>
          Save the settings
        </button>
      </div>
    </form>
  );
}

function Paths(props: { id: string; label: string; text: string; onInput: (text: string) => void }): JSX.Element {
  return (
    <div class="field">
      <label for={props.id}>{props.label}, one on each line, such as /a/b</label>
      <textarea
        id={props.id}
        class="mono"
        rows={Math.min(8, Math.max(2, lines(props.text).length + 1))}
        spellcheck={false}
        value={props.text}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </div>
  );
}
