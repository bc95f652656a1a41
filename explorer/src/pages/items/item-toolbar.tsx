// The bar above the list of items, and what stands in place of an empty list.

import { For, Show, type JSX } from "solid-js";
import { Icon } from "../../kit/icons";
import { Empty } from "../../kit/pane";
import { place, setState } from "../../kit/router";

export function Toolbar(props: {
  mayWrite: boolean;
  partitions: string[];
  onNew: () => void;
  onUpload: () => void;
  onExport: () => void;
  onAll: () => void;
  onRefresh: () => void;
}): JSX.Element {
  const state = () => place().state;
  let filter!: HTMLInputElement;
  return (
    <form
      class="toolbar"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const fields = new FormData(event.currentTarget);
        setState({
          filter: String(fields.get("filter") ?? ""),
          key: String(fields.get("key") ?? ""),
          sort: String(fields.get("sort") ?? "").trim(),
        });
      }}
    >
      <label class="grow">
        Filter
        <input
          name="filter"
          class="mono grow"
          data-filter
          ref={filter}
          spellcheck={false}
          autocomplete="off"
          placeholder={'c.total > 10 AND c.state = "open"'}
          value={state()["filter"] ?? ""}
        />
      </label>
      <label>
        Key
        <input
          name="key"
          class="mono key-input"
          spellcheck={false}
          autocomplete="off"
          placeholder='["ada"]'
          value={state()["key"] ?? ""}
        />
      </label>
      <label>
        Sort
        <input
          name="sort"
          class="mono sort-input"
          spellcheck={false}
          autocomplete="off"
          placeholder="c._ts DESC"
          value={state()["sort"] ?? ""}
        />
      </label>
      <Show when={props.partitions.length > 1}>
        <label>
          Partition
          <select
            value={state()["partition"] ?? ""}
            onChange={(event) => setState({ partition: event.currentTarget.value })}
          >
            <option value="">any</option>
            <For each={props.partitions}>{(id) => <option value={id}>{id}</option>}</For>
          </select>
        </label>
      </Show>
      <button type="submit">Apply</button>
      <button
        type="button"
        class="plain square"
        aria-label="Refresh"
        title="Refresh (r)"
        onClick={() => props.onRefresh()}
      >
        <Icon name="refresh" />
      </button>
      <span class="spacer" />
      <Show when={props.mayWrite}>
        <button type="button" onClick={() => props.onNew()} title="New item (n)">
          <Icon name="plus" /> New
        </button>
        <button type="button" onClick={() => props.onUpload()}>
          <Icon name="upload" /> Upload
        </button>
      </Show>
      <Show when={props.mayWrite}>
        <button type="button" onClick={() => props.onAll()} title="Patch or delete all that the filter finds">
          <Icon name="edit" /> All…
        </button>
      </Show>
      <button type="button" onClick={() => props.onExport()}>
        <Icon name="download" /> Export
      </button>
    </form>
  );
}

export function Nothing(props: {
  mayWrite: boolean;
  isSettled: boolean;
  onNew: () => void;
  onUpload: () => void;
}): JSX.Element {
  const isFiltered = () => Boolean(place().state["filter"] || place().state["key"] || place().state["partition"]);
  return (
    <Show when={props.isSettled} fallback={<div class="column" />}>
      <Show
        when={isFiltered()}
        fallback={
          <Empty title="No items yet">
            <p>This container is empty.</p>
            <Show when={props.mayWrite}>
              <div class="row">
                <button type="button" class="primary" onClick={() => props.onNew()}>
                  New item
                </button>
                <button type="button" onClick={() => props.onUpload()}>
                  Upload a file
                </button>
              </div>
            </Show>
          </Empty>
        }
      >
        <Empty title="No item matches">
          <p>The query ran and found nothing.</p>
          <button type="button" onClick={() => setState({ filter: "", key: "", partition: "" })}>
            Clear filter, key and partition
          </button>
        </Empty>
      </Show>
    </Show>
  );
}
