// How well a title fits a few typed letters.

/** Whether the letters occur in this order; smaller is better, and nothing is no match. */
export function rank(title: string, wanted: string): number | null {
  if (wanted === "") return 0;
  const text = title.toLowerCase();
  const whole = text.indexOf(wanted);
  if (whole >= 0) return whole;
  let at = -1;
  let gaps = 0;
  for (const letter of wanted) {
    const next = text.indexOf(letter, at + 1);
    if (next < 0) return null;
    gaps += next - at - 1;
    at = next;
  }
  return 100 + gaps;
}
