// JSON for editors: colours, folding, indentation.

import {
  continuedIndent,
  foldInside,
  foldNodeProp,
  indentNodeProp,
  LanguageSupport,
  LRLanguage,
} from "@codemirror/language";
import { parser } from "@lezer/json";

const language = LRLanguage.define({
  name: "json",
  parser: parser.configure({
    props: [
      indentNodeProp.add({
        Object: continuedIndent({ except: /^\s*\}/ }),
        Array: continuedIndent({ except: /^\s*\]/ }),
      }),
      foldNodeProp.add({ "Object Array": foldInside }),
    ],
  }),
  languageData: { closeBrackets: { brackets: ["[", "{", '"'] } },
});

export const json = (): LanguageSupport => new LanguageSupport(language);
