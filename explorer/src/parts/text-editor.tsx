// A text editor as an element of a page. The editors' code is fetched when the first one is shown.

import { createEffect, createSignal, onCleanup, onMount, Show, untrack, type JSX } from "solid-js";
import type { Editor, EditorOptions, Mark } from "../editor/setup";
import { Missing } from "../kit/later";

const LANGUAGES = {
  json: async () => (await import("../editor/json")).json(),
  nosql: async () => (await import("../editor/nosql")).nosql(),
  tables: async () => (await import("../editor/tables")).tables(),
  script: async () => (await import("../editor/script")).script(),
};

export interface TextEditorProps extends Omit<EditorOptions, "text" | "language"> {
  text: string;
  language: keyof typeof LANGUAGES;
  marks?: Mark[];
  onReady?: (editor: Editor) => void;
}

/** The text of the properties counts when it changes; what is typed is told by `onChange`. */
export function TextEditor(props: TextEditorProps): JSX.Element {
  let host!: HTMLDivElement;
  let isGone = false;
  const [editor, setEditor] = createSignal<Editor | null>(null);
  const [isMissing, setMissing] = createSignal(false);
  const make = async () => {
    try {
      const [{ createEditor }, language] = await Promise.all([import("../editor/setup"), LANGUAGES[props.language]()]);
      if (isGone) return;
      const made = untrack(() => createEditor(host, { ...props, language, text: props.text }));
      setEditor(made);
      props.onReady?.(made);
    } catch {
      setMissing(true);
    }
  };
  onMount(() => void make());
  createEffect(() => {
    const { text } = props;
    const now = editor();
    if (now && now.text() !== text) now.setText(text);
  });
  createEffect(() => editor()?.setReadOnly(props.isReadOnly === true));
  createEffect(() => editor()?.mark(props.marks ?? []));
  onCleanup(() => {
    isGone = true;
    editor()?.destroy();
  });
  return (
    <>
      <Show when={isMissing()}>
        <Missing what="The editor" />
      </Show>
      <div class="editor" ref={host} />
    </>
  );
}
