// JavaScript for editors: colours, folding, indentation. Fetched by the page of scripts alone.

import {
  continuedIndent,
  foldInside,
  foldNodeProp,
  indentNodeProp,
  LanguageSupport,
  LRLanguage,
} from "@codemirror/language";
import { parser } from "@lezer/javascript";

const language = LRLanguage.define({
  name: "javascript",
  parser: parser.configure({
    props: [
      indentNodeProp.add({
        "Block ObjectExpression ArrayExpression ArgList": continuedIndent({ except: /^\s*[}\])]/ }),
      }),
      foldNodeProp.add({ "Block ObjectExpression ArrayExpression": foldInside }),
    ],
  }),
  languageData: { closeBrackets: { brackets: ["(", "[", "{", "'", '"', "`"] }, commentTokens: { line: "//" } },
});

export const script = (): LanguageSupport => new LanguageSupport(language);
