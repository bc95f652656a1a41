import { expect, test } from "vitest";
import { heatColour, oklab, palette, STOPS, rgbOf, type Rgb } from "../../src/kit/colour";
import { colourOf, pixelsOf } from "../../src/kit/heat";

// Viénot, Brettel, Mollon 1999 (protan, deutan) and a usual linear approximation for tritan, on linear light.
const VISIONS: Record<string, number[][]> = {
  protan: [
    [0.11238, 0.88762, 0],
    [0.11238, 0.88762, 0],
    [0.00401, -0.00401, 1],
  ],
  deutan: [
    [0.29275, 0.70725, 0],
    [0.29275, 0.70725, 0],
    [-0.02234, 0.02234, 1],
  ],
  tritan: [
    [1, 0.14461, -0.14461],
    [0, 0.85924, 0.14076],
    [0, 0.85924, 0.14076],
  ],
};

const linear = (unit: number) => (unit / 255 <= 0.04045 ? unit / 255 / 12.92 : ((unit / 255 + 0.055) / 1.055) ** 2.4);
const gamma = (share: number) => 255 * (share <= 0.0031308 ? share * 12.92 : 1.055 * share ** (1 / 2.4) - 0.055);

function seen(colour: Rgb, matrix: number[][]): Rgb {
  const light = colour.map(linear);
  return matrix.map((row) =>
    gamma(
      Math.max(
        0,
        row.reduce((sum, factor, at) => sum + factor * (light[at] ?? 0), 0),
      ),
    ),
  ) as Rgb;
}

test("lightness rises by at least 0.09 from stop to stop", () => {
  const lightness = STOPS.map((hex) => oklab(rgbOf(hex))[0]);
  for (let at = 1; at < lightness.length; at++)
    expect((lightness[at] ?? 0) - (lightness[at - 1] ?? 0)).toBeGreaterThan(0.09);
});

test("the scale stays monotone in three simulated visions", () => {
  for (const [name, matrix] of Object.entries(VISIONS)) {
    const lightness = STOPS.map((hex) => oklab(seen(rgbOf(hex), matrix))[0]);
    for (let at = 1; at < lightness.length; at++)
      expect((lightness[at] ?? 0) - (lightness[at - 1] ?? 0), `${name} ${at}`).toBeGreaterThan(0.05);
  }
});

test("all 256 colours rise in lightness", () => {
  let before = -1;
  for (let at = 0; at < 256; at++) {
    const [lightness] = oklab(heatColour(at / 255));
    expect(lightness).toBeGreaterThan(before - 0.004);
    before = Math.max(before, lightness);
  }
  expect(palette().length).toBe(256);
});

test("pixels stand where their cells are: low rows at the bottom, unknown unlike zero", () => {
  const cells = Float32Array.from([0, 1, Number.NaN, 0.5]);
  const pixels = pixelsOf({ columns: 2, rows: 2, cells, scale: 1 });
  expect(pixels[2]).toBe(colourOf(0, 1));
  expect(pixels[0]).toBe(colourOf(1, 1));
  expect(pixels[1]).toBe(colourOf(0.5, 1));
  expect(pixels[3]).not.toBe(colourOf(0, 1));
  expect(colourOf(0.004, 1)).toBe(colourOf(0, 1));
});
