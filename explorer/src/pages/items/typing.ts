// Whether a key press is text, or belongs to a dialog.

export function isTypingNow(event: Event): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

export const hasOpenDialog = (): boolean => document.querySelector("dialog[open]") !== null;
