// Text editors: CodeMirror inside a shadow root, where its styles are constructed sheets that the page's policy allows.
//
// Tab leaves the editor, as everywhere on a page. Marks for mistakes are drawn by CSS, because the lint package's are
// `data:` images.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionSource,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import {
  bracketMatching,
  codeFolding,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, StateEffect, StateField, type Extension } from "@codemirror/state";
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  type DecorationSet,
  type KeyBinding,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface Mark {
  from: number;
  to: number;
  isError: boolean;
}

export interface EditorOptions {
  text: string;
  label: string;
  language: Extension;
  isReadOnly?: boolean;
  onChange?: (text: () => string) => void;
  keys?: KeyBinding[];
  complete?: CompletionSource;
}

export interface Editor {
  view: EditorView;
  text(): string;
  setText(text: string): void;
  setReadOnly(isReadOnly: boolean): void;
  mark(marks: Mark[]): void;
  /** Puts the cursor there and shows it. */
  goTo(at: number): void;
  selection(): string;
  destroy(): void;
}

const setMarks = StateEffect.define<Mark[]>();
const errorMark = Decoration.mark({ class: "cm-mistake" });
const warningMark = Decoration.mark({ class: "cm-doubt" });

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects)
      if (effect.is(setMarks)) return decorated(effect.value, transaction.newDoc.length);
    return shown.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorated(wanted: Mark[], length: number): DecorationSet {
  const ranges = wanted.flatMap(({ from, to, isError }) => {
    const end = Math.min(Math.max(to, from + 1), length);
    const start = Math.min(from, Math.max(0, end - 1));
    return start < end ? [(isError ? errorMark : warningMark).range(start, end)] : [];
  });
  return Decoration.set(ranges, true);
}

const theme = EditorView.theme({
  "&": {
    height: "100%",
    flex: "1",
    minWidth: "0",
    color: "var(--ink)",
    backgroundColor: "var(--panel)",
    fontSize: "12.5px",
  },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "19px" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--chosen)",
  },
  ".cm-mistake": {
    textDecoration: "underline wavy var(--bad)",
    textDecorationSkipInk: "none",
    textUnderlineOffset: "3px",
  },
  ".cm-doubt": { textDecoration: "underline dotted var(--warn)", textUnderlineOffset: "3px" },
  ".cm-matchingBracket": { backgroundColor: "var(--chosen)", outline: "1px solid var(--line)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", color: "var(--dim)", border: "1px solid var(--line)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)" },
  // The list follows the arrow keys and never scrolls: a region that scrolls would have to take the focus.
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { maxHeight: "none" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--chosen)", color: "var(--ink)" },
  ".cm-panels": { backgroundColor: "var(--ground)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-searchMatch": { backgroundColor: "var(--chosen)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--panel)", border: "1px solid var(--field-line)" },
  ".cm-textfield": { backgroundColor: "var(--panel)", border: "1px solid var(--field-line)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.variableName)], color: "var(--s1)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--s2)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--s3)" },
  { tag: [tags.keyword, tags.operatorKeyword], color: "var(--s4)", fontWeight: "600" },
  { tag: [tags.function(tags.variableName), tags.standard(tags.name)], color: "var(--s1)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

/**
 * Typing over a selection is done here and not by the browser, which would keep the look of the replaced text as an inline
 * style, and report that the page's policy forbids it. Brackets and quotes are left to the package that pairs them.
 */
const replaceSelected = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { data, inputType } = event;
    const isPair = data !== null && /^[()[\]{}"'`]$/.test(data);
    const { readOnly, selection } = view.state;
    if (inputType !== "insertText" || data === null || isPair || readOnly || view.composing || selection.main.empty)
      return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

export function createEditor(host: HTMLElement, options: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const readOnly = new Compartment();
  const fixed = (isReadOnly: boolean): Extension => [EditorState.readOnly.of(isReadOnly)];
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      lineNumbers(),
      foldGutter(),
      codeFolding(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      search({ top: true }),
      highlightActiveLine(),
      highlightSelectionMatches(),
      options.complete ? autocompletion({ override: [options.complete], icons: false, maxRenderedOptions: 8 }) : [],
      options.language,
      syntaxHighlighting(colours),
      keymap.of([
        ...(options.keys ?? []),
        ...closeBracketsKeymap,
        ...defaultKeymap,
        ...searchKeymap,
        ...historyKeymap,
        ...foldKeymap,
        ...completionKeymap,
      ]),
      readOnly.of(fixed(options.isReadOnly === true)),
      marks,
      replaceSelected,
      theme,
      EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onChange?.(() => update.state.doc.toString());
      }),
    ],
  });
  const view = new EditorView({ state, parent: root, root });
  host.classList.add("editor-host");
  return {
    view,
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setReadOnly: (isReadOnly) => view.dispatch({ effects: readOnly.reconfigure(fixed(isReadOnly)) }),
    mark: (wanted) => view.dispatch({ effects: setMarks.of(wanted) }),
    goTo: (at) => {
      const anchor = Math.min(at, view.state.doc.length);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
      view.focus();
    },
    selection: () => view.state.sliceDoc(view.state.selection.main.from, view.state.selection.main.to),
    destroy: () => view.destroy(),
  };
}
