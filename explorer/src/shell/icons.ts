// The icons of the frame.

export const OPEN = "M4 6l4 4 4-4";
export const CLOSED = "M6 4l4 4-4 4";
export const LOCK = "M4 7h8v7H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2";
export const UNLOCK = "M4 7h8v7H4zM5.5 7V4.5a2.5 2.5 0 0 1 4.8-1";
export const THEME = "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12";
export const SEARCH = "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14";
export const MENU = "M2.5 4h11M2.5 8h11M2.5 12h11";
export const OUT = "M6 2.5H3v11h3M7 8h7M11 5l3 3-3 3";
export const PLUS = "M8 3v10M3 8h10";
