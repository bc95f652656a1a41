// A text editor as an element of a page. The editors' code is fetched when the first one is shown.

import { createEffect, onCleanup, onMount, type JSX } from "solid-js";
import { createEditor, type Editor, type EditorOptions, type Mark } from "../editor/setup";

export interface TextEditorProps extends Omit<EditorOptions, "text"> {
  text: string;
  marks?: Mark[];
  onReady?: (editor: Editor) => void;
}

/** The text of the properties counts when it changes; what is typed is told by `onChange`. */
export function TextEditor(props: TextEditorProps): JSX.Element {
  let host!: HTMLDivElement;
  let editor = null as Editor | null;
  onMount(() => {
    editor = createEditor(host, { ...props, text: props.text });
    props.onReady?.(editor);
  });
  createEffect(() => {
    const { text } = props;
    if (editor && editor.text() !== text) editor.setText(text);
  });
  createEffect(() => editor?.setReadOnly(props.isReadOnly === true));
  createEffect(() => editor?.mark(props.marks ?? []));
  onCleanup(() => editor?.destroy());
  return <div class="editor" ref={host} />;
}
