// Numbers, money and times as they are shown everywhere: short, with their unit, in the viewer's zone and language.

const NARROW = '\u202f';

function trimmed(value: number, digits: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: 0, useGrouping: false });
}

// 950, 12.4k, 3.2M.
export function short(value: number): string {
  const size = Math.abs(value);
  for (const [unit, of] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]] as const) {
    if (size >= of * 0.9995) return `${trimmed(value / of, size >= of * 99.5 ? 0 : 1)}${unit}`;
  }
  return trimmed(value, size >= 10 ? 0 : size >= 1 ? 1 : 2);
}

// Every digit, in groups.
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en').replaceAll(',', NARROW);
}

export function money(microUsd: number): string {
  const usd = microUsd / 1e6;
  const size = Math.abs(usd);
  if (size === 0) return '$0';
  if (size >= 100_000) return `$${short(usd)}`;
  if (size >= 0.1) return `$${usd.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  if (size >= 0.0001) return `$${usd.toFixed(4)}`;
  return `$${usd.toFixed(6)}`;
}

// Of a price list, which has more digits where they count: $0.60, $0.075.
export function price(usd: string | number): string {
  return `$${Number(usd).toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;
}

export function percent(part: number): string {
  const value = part * 100;
  return `${trimmed(value, value !== 0 && Math.abs(value) < 10 ? 1 : 0)}\u00a0%`;
}

// The parts are apart, so that a unit can stand in a lighter tone.
export type Quantity = [number: string, unit: string];

export function duration(ms: number): Quantity {
  if (ms < 1) return [trimmed(ms, 2), 'ms'];
  if (ms < 1000) return [trimmed(ms, ms < 10 ? 1 : 0), 'ms'];
  const s = ms / 1000;
  if (s < 60) return [trimmed(s, s < 10 ? 1 : 0), 's'];
  if (s < 3600) return [trimmed(s / 60, s < 600 ? 1 : 0), 'min'];
  if (s < 48 * 3600) return [trimmed(s / 3600, 1), 'h'];
  return [trimmed(s / 86400, 1), 'd'];
}

export function bytes(value: number): Quantity {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  let left = value;
  while (left >= 1024 && at < units.length - 1) { left /= 1024; ++at; }
  return [trimmed(left, left < 10 && at > 0 ? 1 : 0), units[at]!];
}

export function deviceTime(seconds: number): Quantity {
  if (seconds < 3600) return [trimmed(seconds / 60, seconds < 600 ? 1 : 0), 'GPU-min'];
  return [short(seconds / 3600), 'GPU-h'];
}

// What a limit counts: money, device time, or its own unit, which the limit's name says.
export function amount(value: number, unit: string, limit: string): Quantity {
  if (unit === 'micro_usd') return [money(value), ''];
  if (unit === 'device_milliseconds') return deviceTime(value / 1000);
  if (limit.includes('token')) return [short(value), 'tokens'];
  if (limit.includes('request') || limit.includes('concurrency')) return [short(value), 'requests'];
  return [short(value), ''];
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const minute = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const full = new Intl.DateTimeFormat(undefined, {
  weekday: 'short', year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit',
  hourCycle: 'h23', timeZoneName: 'short',
});
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const date = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });

export const clockTime = (at: number) => clock.format(at);
export const minuteTime = (at: number) => minute.format(at);
export const fullTime = (at: number) => full.format(at);
export const shortDate = (at: number) => day.format(at);
export const longDate = (at: number) => date.format(at);

// Times of a sentence of the gateway, which are of UTC, as the viewer's.
export function localTimes(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z/g, (time) => {
    const at = Date.parse(time);
    return Math.abs(at - Date.now()) < 12 * 3_600_000 ? minuteTime(at) : `${shortDate(at)}, ${minuteTime(at)}`;
  });
}

// "12 s ago", "in 3 h"; the date when it is more than a month away.
export function relative(at: number, now: number): string {
  const ms = now - at;
  const size = Math.abs(ms);
  if (size > 45 * 86_400_000) return longDate(at);
  if (size < 1500) return 'now';
  const s = Math.round(size / 1000);
  const text = s < 60 ? `${s} s` : s < 3600 ? `${Math.round(s / 60)} min` : s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
  return ms >= 0 ? `${text} ago` : `in ${text}`;
}

// A key's or a tenant's own limits: "60 requests per minute, $50.00 a month".
export function limitsInWords(limits: object): string {
  return Object.entries(limits).map(([name, value]) => {
    if (name === 'budget') return [value].flat().map((each: Budget) => `${budgetInWords(each)} a ${each.period ?? 'month'}${each.model ? ` for ${each.model}` : ''}${each.device ? ` on ${each.device}` : ''}`).join(', ');
    if (name === 'per_model') return Object.entries(value as Record<string, object>).map(([model, of]) => `${limitsInWords(of)} of ${model}`).join(', ');
    return name === 'concurrency' ? `${whole(Number(value))} requests at once` : `${whole(Number(value))} ${name.replaceAll('_', ' ')}`;
  }).join(', ');
}

interface Budget { usd?: number; tokens?: number; device_hours?: number; period?: string; model?: string; device?: string }

function budgetInWords({ usd, tokens, device_hours: hours }: Budget): string {
  return [usd === undefined ? '' : money(usd * 1e6), tokens === undefined ? '' : `${short(tokens)} tokens`, hours === undefined ? '' : `${short(hours)} device-hours`].filter(Boolean).join(' and ');
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

export function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

// "a, b and c".
export function listed(words: string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

// Characters that are not seen, or that turn the text around, as their numbers: a name must not look like another.
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu, (of) => `\\u${of.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
