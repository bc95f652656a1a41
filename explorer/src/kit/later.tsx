// Parts of the interface whose files are fetched when they are first shown, or a moment before.
//
// Files may not come: the server is away, or another version of it serves others by now. Then this says so, where the part
// would be, and what is typed elsewhere stays.

import { createComponent, createSignal, Show, type Component, type JSX } from "solid-js";
import { Loading } from "./loading";

export type Later<P extends object> = Component<P> & { preload: () => Promise<void> };

/** A component that is fetched once, by whichever comes first: being shown, or `preload`. */
export function later<P extends object>(
  what: string,
  load: () => Promise<Component<P>>,
  options: { isPage?: boolean } = {},
): Later<P> {
  const [part, setPart] = createSignal<Component<P> | null>(null);
  const [isMissing, setMissing] = createSignal(false);
  let coming: Promise<void> | null = null;
  const preload = () =>
    (coming ??= load().then(
      (loaded) => void setPart(() => loaded),
      () => void setMissing(true),
    ));
  const Shown = (props: P): JSX.Element => {
    void preload();
    const waiting = () =>
      isMissing() ? <Missing what={what} isPage={options.isPage === true} /> : <Loading words="Loading" />;
    return (
      <Show when={part()} fallback={waiting()} keyed>
        {(Part) => createComponent(Part, props)}
      </Show>
    );
  };
  return Object.assign(Shown, { preload });
}

/** Browsers remember that a module did not come and do not ask again, so that only loading the page anew helps. */
export function Missing(props: { what: string; isPage?: boolean }): JSX.Element {
  const title = () => `${props.what} did not load`;
  const [isAway, setAway] = createSignal(false);
  const reload = async () => {
    try {
      // A server that is away would leave nothing of the page.
      await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
      location.reload();
    } catch {
      setAway(true);
    }
  };
  return (
    <div class="failed" role="alert">
      <div>
        <Show when={props.isPage} fallback={<b>{title()}</b>}>
          <h1>{title()}</h1>
        </Show>
        <p>
          {isAway() ? "The server does not answer yet." : "The server was away, or another version took its place."}
        </p>
      </div>
      <button type="button" onClick={() => void reload()}>
        Reload
      </button>
    </div>
  );
}
