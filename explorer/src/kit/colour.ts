// The heat scale: nine colours, interpolated in OKLab, so that equal steps look equal.
//
// Its lightness rises all the way, also as people with protan, deutan or tritan vision see it (test/unit/colour.test.ts).

export type Rgb = [number, number, number];
type Lab = [number, number, number];

export const STOPS = [
  "#060d38",
  "#2e1460",
  "#5f1977",
  "#932379",
  "#c13b6b",
  "#e0635a",
  "#ec935e",
  "#ecc28a",
  "#eee9cb",
];

export function rgbOf(hex: string): Rgb {
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

const toLinear = (unit: number) => {
  const share = unit / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
};

const toGamma = (share: number) => {
  const value = share <= 0.0031308 ? share * 12.92 : 1.055 * share ** (1 / 2.4) - 0.055;
  return Math.round(Math.min(Math.max(value, 0), 1) * 255);
};

export function oklab([red, green, blue]: Rgb): Lab {
  const [r, g, b] = [toLinear(red), toLinear(green), toLinear(blue)];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function rgbOfLab([lightness, a, b]: Lab): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    toGamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    toGamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    toGamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

const LABS = STOPS.map((hex) => oklab(rgbOf(hex)));

/** The colour for a share of 0 to 1. */
export function heatColour(share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (LABS.length - 1);
  const index = Math.min(Math.floor(place), LABS.length - 2);
  const [from, to] = [LABS[index] as Lab, LABS[index + 1] as Lab];
  const part = place - index;
  const mix = (channel: 0 | 1 | 2) => from[channel] + (to[channel] - from[channel]) * part;
  return rgbOfLab([mix(0), mix(1), mix(2)]);
}

/** 256 colours as canvas pixels, alpha first on the machines that browsers run on. */
export function palette(): Uint32Array {
  const colours = new Uint32Array(256);
  for (let index = 0; index < 256; index++) {
    const [red, green, blue] = heatColour(index / 255);
    colours[index] = (255 << 24) | (blue << 16) | (green << 8) | red;
  }
  return colours;
}
