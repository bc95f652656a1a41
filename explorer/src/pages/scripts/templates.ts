// What a new script begins with.

import type { ScriptKind } from "../../client/scripts";

export const TEMPLATES: Record<ScriptKind, string> = {
  sprocs: `function (wanted) {
  const collection = getContext().getCollection();
  const accepted = collection.queryDocuments(collection.getSelfLink(), "SELECT * FROM c", (error, items) => {
    if (error) throw error;
    console.log("found", items.length);
    getContext().getResponse().setBody(items.length);
  });
  if (!accepted) throw new Error("near the limit of the run: call again");
}
`,
  triggers: `function () {
  const request = getContext().getRequest();
  const item = request.getBody();
  item.seen = Date.now();
  request.setBody(item);
}
`,
  udfs: `function (value) {
  return value * 2;
}
`,
};
