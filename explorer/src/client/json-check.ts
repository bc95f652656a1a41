// What is wrong with a text that should be JSON, and where; and what is right but should make one think.
//
// A strict reader by hand: `JSON.parse` says a place only in some browsers, and knows nothing of numbers that a double
// changes or of members that come twice.

export interface Remark {
  at: number;
  end: number;
  words: string;
  isError: boolean;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
/** What a string may hold as it is. Texts are checked while somebody types in them, so this part is left to the browser. */
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const DEPTH_MAX = 128;
const REMARKS_MAX = 20;

class Mistake extends Error {
  constructor(
    readonly at: number,
    message: string,
  ) {
    super(message);
  }
}

/** An error ends the list; warnings come before it. */
export function check(text: string): Remark[] {
  const reader = new Reader(text);
  try {
    reader.value(reader.space(0), 0);
    const rest = reader.space(reader.place);
    if (rest < text.length) throw new Mistake(rest, "there is more text behind the value");
  } catch (failure) {
    if (!(failure instanceof Mistake)) throw failure;
    const { at, message } = failure;
    reader.remarks.push({ at, end: Math.min(at + 1, text.length), words: message, isError: true });
  }
  return reader.remarks;
}

class Reader {
  place = 0;
  readonly remarks: Remark[] = [];

  constructor(private readonly text: string) {}

  space(at: number): number {
    for (;;) {
      const code = this.text.charCodeAt(at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at;
      at++;
    }
  }

  value(at: number, depth: number): void {
    const first = this.text[at];
    if (depth > DEPTH_MAX) throw new Mistake(at, `values are nested deeper than ${DEPTH_MAX} levels`);
    if (first === "{") return this.object(at, depth);
    if (first === "[") return this.array(at, depth);
    if (first === '"') return void this.string(at);
    for (const word of ["true", "false", "null"]) {
      if (!this.text.startsWith(word, at)) continue;
      this.place = at + word.length;
      return;
    }
    this.number(at);
  }

  private object(at: number, depth: number): void {
    const names = new Set<string>();
    let place = this.space(at + 1);
    if (this.text[place] === "}") return void (this.place = place + 1);
    for (;;) {
      if (this.text[place] !== '"') throw new Mistake(place, 'a member name in "quotes" is missing here');
      const name = this.string(place);
      if (names.has(name)) this.warn(place, this.place, `the member "${name}" comes twice: the last one counts`);
      names.add(name);
      place = this.space(this.place);
      if (this.text[place] !== ":") throw new Mistake(place, "a colon is missing behind the member's name");
      this.value(this.space(place + 1), depth + 1);
      place = this.space(this.place);
      if (this.text[place] === "}") return void (this.place = place + 1);
      if (this.text[place] !== ",") throw new Mistake(place, "a comma or } is missing here");
      place = this.space(place + 1);
    }
  }

  private array(at: number, depth: number): void {
    let place = this.space(at + 1);
    if (this.text[place] === "]") return void (this.place = place + 1);
    for (;;) {
      this.value(place, depth + 1);
      place = this.space(this.place);
      if (this.text[place] === "]") return void (this.place = place + 1);
      if (this.text[place] !== ",") throw new Mistake(place, "a comma or ] is missing here");
      place = this.space(place + 1);
    }
  }

  private string(at: number): string {
    let place = at + 1;
    while ((place = endOf(PLAIN, this.text, place)) < this.text.length) {
      const code = this.text.charCodeAt(place);
      if (code < 32) throw new Mistake(place, "a string holds a line break or control character: write \\n or \\u00xx");
      if (code === 34) {
        this.place = place + 1;
        return this.text.slice(at + 1, place);
      }
      const next = endOf(ESCAPE, this.text, place);
      if (next === 0) throw new Mistake(place + 1, "an escape is not one of JSON's");
      place = next;
    }
    throw new Mistake(at, "a string does not end");
  }

  private number(at: number): void {
    NUMBER.lastIndex = at;
    const token = NUMBER.exec(this.text)?.[0];
    if (!token) throw new Mistake(at, at < this.text.length ? "this is no JSON value" : "the text ends too early");
    this.place = at + token.length;
    if (!Number.isFinite(Number(token))) throw new Mistake(at, `the number ${token} is too large for any reader`);
    if (!isExact(token)) this.warn(at, this.place, `${token} does not fit a double: clients may read it rounded`);
  }

  private warn(at: number, end: number, words: string): void {
    if (this.remarks.length < REMARKS_MAX) this.remarks.push({ at, end, words, isError: false });
  }
}

/** Where what a sticky expression matches from a place on ends; 0 where it matches nothing there. */
function endOf(expression: RegExp, text: string, from: number): number {
  expression.lastIndex = from;
  expression.test(text);
  return expression.lastIndex;
}

/** Whether a reader that knows doubles only gets the same integer. */
function isExact(token: string): boolean {
  if (!/^-?\d{16,}$/.test(token)) return true;
  return BigInt(token) === BigInt(Number(token));
}
