// The hue of each holder of devices: in the order in which they appear, and the same on every page. It stays for
// the browser, so that a model keeps its colour from day to day.
const KEY = 'tidegate.hues';
const HUES = 8;

let known: string[] = [];
try {
  known = JSON.parse(localStorage.getItem(KEY) ?? '[]');
} catch { /* a private window */ }

// 0 to 7; the class of an element is `hue-` and the number.
export function hueOf(holder: string): number {
  let at = known.indexOf(holder);
  if (at < 0) {
    at = known.push(holder) - 1;
    if (known.length > 200) known = known.slice(-100);
    try { localStorage.setItem(KEY, JSON.stringify(known)); } catch { /* likewise */ }
  }
  return at % HUES;
}

// The colour itself, for a canvas.
export function colourOf(holder: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--hue-${hueOf(holder)}`).trim();
}
