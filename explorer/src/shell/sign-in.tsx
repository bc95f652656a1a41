// Signing in: a key, a connection string or a resource token is pasted, turned into what can only sign, and forgotten.

import { createSignal, Show, type JSX } from "solid-js";
import { asServerError } from "../client/failure";
import { hint } from "../client/hint";
import { readPasted } from "../client/pasted";
import type { Credential } from "../client/session";
import { importKey, WELL_KNOWN_KEY } from "../client/sign";
import { isLoopback, signIn, startProblem } from "../state/account";

export function SignIn(): JSX.Element {
  const [text, setText] = createSignal("");
  const [isKept, setKept] = createSignal(true);
  const [isBusy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal("");
  const isSecure = () => typeof crypto !== "undefined" && crypto.subtle !== undefined;

  const otherEndpoint = () => {
    const { endpoint } = readPasted(text());
    if (!endpoint) return "";
    try {
      return new URL(endpoint).origin === location.origin ? "" : endpoint;
    } catch {
      return endpoint;
    }
  };

  const attempt = async (credential: () => Promise<Credential>) => {
    setBusy(true);
    setProblem("");
    try {
      const who = await credential();
      setText("");
      await signIn(who, { keep: isKept() });
    } catch (failure) {
      setProblem(asServerError(failure).message);
    } finally {
      setBusy(false);
    }
  };

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const { key, token } = readPasted(text());
    return attempt(async () =>
      token ? { kind: "token", token } : { kind: "key", key: await importKey(key ?? ""), isWellKnown: false },
    );
  };
  /** Servers that only this machine reaches take it; a newcomer who signed out has no other. */
  const useWellKnown = () =>
    attempt(async () => ({ kind: "key", key: await importKey(WELL_KNOWN_KEY), isWellKnown: true }));

  return (
    <main class="sign-in" id="main">
      <h1>Sign in to this server</h1>
      <p class="dim">{location.origin}</p>
      <Show
        when={isSecure()}
        fallback={<p>Signing needs https: or an address of this machine. Open this page by one of them.</p>}
      >
        <form class="form" onSubmit={(event) => void submit(event)}>
          <div class="field">
            <label for="credential">Account key, connection string or resource token</label>
            <input
              id="credential"
              type="password"
              autocomplete="off"
              spellcheck={false}
              required
              value={text()}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </div>
          <Show when={otherEndpoint()}>
            <p class="warn">
              The connection string names {otherEndpoint()}. Its key is tried here, at {location.origin}; nothing is
              sent elsewhere.
            </p>
          </Show>
          <label>
            <input type="checkbox" checked={!isKept()} onChange={(event) => setKept(!event.currentTarget.checked)} />{" "}
            this tab only
          </label>
          <Show when={problem() || startProblem()}>
            <div class="failed" role="alert">
              <div>
                <b>Signing in failed</b>
                <p class="message">{problem() || startProblem()?.message}</p>
                <p>{problem() ? "" : hint(startProblem()!)}</p>
              </div>
            </div>
          </Show>
          <div class="actions">
            <Show when={isLoopback()}>
              <button type="button" class="plain act" disabled={isBusy()} onClick={() => void useWellKnown()}>
                Use the emulator's well-known key
              </button>
            </Show>
            <button type="submit" class="primary" disabled={isBusy() || text().trim() === ""}>
              Sign in
            </button>
          </div>
        </form>
        <p class="dim">
          The key becomes one that can only sign and cannot be read again, kept in this browser for 12 hours after its
          last use. Requests are signed here; there are no cookies.
        </p>
      </Show>
    </main>
  );
}
