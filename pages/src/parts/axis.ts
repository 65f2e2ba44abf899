// Value axes whose ticks are round in the unit that is shown: powers of two of bytes, tens of everything else.

/** The next round number at or above `top`, a multiple of four of something round. Base 1024: bytes. */
export function rounded(top: number, base: number): number {
  if (top <= 0) return 1;
  const unit = base ** Math.floor(Math.log(top) / Math.log(base));
  const share = top / unit;
  const steps = base === 1024 ? [1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024] : [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 30, 40, 60, 80, 100, 120, 160, 200, 300, 400, 600, 800, 1000];
  return (steps.find((step) => share <= step) ?? base) * unit;
}

/** How far such an axis goes and how far its ticks stand apart. */
export function roundScale(values: (number | null | undefined)[], base: number): { max: number; interval: number } {
  const top = rounded(values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0), base);
  return { max: top, interval: top / 4 };
}

/** A tick: `8 MiB`, not `8.00 MiB`. */
export const tick = (said: (value: number) => string) => (value: number): string =>
  value ? said(value).replace(/\.(\d*?)0+(?=\D|$)/, (_, kept: string) => (kept ? `.${kept}` : "")) : "0";

/** The value axis of a chart that shows these values (of stacked ones: their sums), each tick written by `said`.
 *  `base` 1024: bytes; "whole": things that are counted one by one. */
export function valueAxis(values: (number | null | undefined)[], said: (value: number) => string, base: 1000 | 1024 | "whole" = 1024): Record<string, unknown> {
  const scale = roundScale(values, base === "whole" ? 1000 : base);
  const whole = base === "whole" && scale.interval % 1 ? { max: Math.ceil(scale.interval) * 4, interval: Math.ceil(scale.interval) } : scale;
  return { type: "value", min: 0, ...whole, axisLabel: { formatter: tick(said) } };
}

/** Of several series, one on the other, the sum at each place. */
export function stacked(...series: (number | null | undefined)[][]): number[] {
  return Array.from({ length: Math.max(0, ...series.map((one) => one.length)) }, (_, at) => series.reduce((sum, one) => sum + (one[at] ?? 0), 0));
}
