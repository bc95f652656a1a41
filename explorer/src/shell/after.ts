// What the frame gets a moment after it is drawn: the bands, the status bar, the keyboard, and words for failures.

export { Bands } from "./bands";
export { StatusBar } from "./status";
export { handleKeys } from "./keys";
import "../client/error-body";
