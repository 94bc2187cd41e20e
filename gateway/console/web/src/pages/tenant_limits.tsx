// The limits of a tenant made at run time: the fields that set them, and the dialog that changes them.
import { ApiError, post } from '../api';
import type { Tenant } from '../api_types';
import { refresh } from '../data';
import { limitsInWords, visible } from '../format';
import { useTyped } from '../typed';
import { Button, Problem, Select, Text } from '../ui/basics';
import { Dialog, useAct } from '../ui/dialog';

interface Budget { usd?: number; tokens?: number; period?: string }
type Limits = { [name: string]: unknown };

const RATES: [name: string, label: string][] = [
  ['requests_per_minute', 'Requests a minute'],
  ['concurrency', 'Requests at once'],
  ['tokens_per_minute', 'Tokens a minute, in and out'],
  ['input_tokens_per_minute', 'Tokens in a minute'],
  ['output_tokens_per_minute', 'Tokens out a minute'],
];
const PERIODS: [string, string][] = [['day', 'a day'], ['week', 'a week'], ['month', 'a month']];

// What stands in the fields: "" for no limit of its own.
export type LimitTexts = { [field: string]: string };

export function textsOf(limits: Limits | undefined): LimitTexts {
  const { usd, tokens, period } = (limits?.['budget'] ?? {}) as Budget;
  const shown = (value: unknown) => (value === undefined ? '' : String(value));
  return {
    ...Object.fromEntries(RATES.map(([name]) => [name, shown(limits?.[name])])),
    usd: shown(usd), tokens: shown(tokens), period: period ?? 'month',
  };
}

export function limitsOf(texts: LimitTexts): Limits {
  const filled = (name: string) => (texts[name] ?? '').trim() !== '';
  const budget = { ...(filled('usd') ? { usd: Number(texts['usd']) } : {}), ...(filled('tokens') ? { tokens: Number(texts['tokens']) } : {}) };
  return {
    ...Object.fromEntries(RATES.filter(([name]) => filled(name)).map(([name]) => [name, Number(texts[name])])),
    ...(Object.keys(budget).length > 0 ? { budget: { ...budget, period: texts['period'] } } : {}),
  };
}

// Of what is typed, with the server's own rules.
function wrongIn(name: string, text: string): string | undefined {
  if (text.trim() === '') return undefined;
  const value = Number(text);
  if (name === 'usd') return value >= 0.000001 ? undefined : 'A number of US dollars, such as 20';
  return Number.isInteger(value) && value > 0 ? undefined : 'A whole number, such as 600';
}

export const anyWrong = (texts: LimitTexts) => Object.entries(texts).some(([name, text]) => name !== 'period' && wrongIn(name, text) !== undefined);

// What the API says of a field: it names the limit in its words.
const refused = (error: Error | undefined, field: RegExp) => (error instanceof ApiError ? error.details.find((each) => each.param === 'limits' && field.test(each.message))?.message : undefined);
const USD = /^limits\.budget\.usd|^budget_/;
const TOKENS = /^limits\.budget\.tokens|^token_budget_/;
const fieldOf = (name: string) => new RegExp(`^(limits\\.)?${name}\\b`);
const shownAtField = (message: string) => [USD, TOKENS, ...RATES.map(([name]) => fieldOf(name))].some((field) => field.test(message));

// Whether the error has words that stand at no field of these.
export function leftOver(error: Error | undefined, ...fields: string[]): Error | undefined {
  if (!(error instanceof ApiError) || error.details.length === 0) return error;
  return error.details.every((each) => fields.includes(each.param) || (each.param === 'limits' && shownAtField(each.message))) ? undefined : error;
}

export function LimitFields({ texts, onInput, above, error }: { texts: LimitTexts; onInput: (texts: LimitTexts) => void; above: Tenant | undefined; error: Error | undefined }) {
  const most = (name: string) => (above?.limits?.[name] !== undefined ? `At most ${String(above.limits[name])}, which ${visible(above.path)} has.` : undefined);
  const field = (name: string, label: string, pattern: RegExp, hint?: string) => (
    <Text label={label} value={texts[name] ?? ''} onInput={(to) => onInput({ ...texts, [name]: to })} placeholder="no limit of its own" hint={hint}
      problem={wrongIn(name, texts[name] ?? '') ?? refused(error, pattern)} />
  );
  const rates = RATES.map(([name, label]) => field(name, label, fieldOf(name), most(name)));
  const open = ['tokens', ...RATES.slice(2).map(([name]) => name)].some((name) => texts[name]);
  return (
    <>
      <p class="hint">What is empty has no limit of its own; the limits of {above ? <bdi>{visible(above.path)}</bdi> : 'the tenant above'} hold all the same{above?.limits && <>: {visible(limitsInWords(above.limits))}</>}.</p>
      <div class="form-row">{rates.slice(0, 2)}</div>
      <div class="form-row">
        {field('usd', 'Budget in US dollars', USD)}
        <Select label="Its period" value={texts['period'] ?? 'month'} onChange={(period) => onInput({ ...texts, period })} options={PERIODS} hint="Calendar periods of UTC; a week begins on Monday." />
      </div>
      <details open={open}>
        <summary>Limits of tokens</summary>
        <div class="form-row">{rates.slice(2)}{field('tokens', 'Budget of tokens', TOKENS, 'In the same period.')}</div>
      </details>
    </>
  );
}

export function ChangeLimits({ of, above, onClose }: { of: Tenant; above: Tenant | undefined; onClose: () => void }) {
  const [texts, setTexts] = useTyped(`tenants.${of.path}.limits`, textsOf(of.limits));
  const [weight, setWeight] = useTyped(`tenants.${of.path}.weight`, String(of.weight));
  const { busy, error, run } = useAct();
  const wrongWeight = Number.isInteger(Number(weight)) && Number(weight) > 0 ? undefined : 'A whole number, at least 1';
  const change = () => run(async () => {
    await post('/admin/v1/tenants/{path}:change', { path: of.path }, { limits: limitsOf(texts), ...(Number(weight) !== of.weight ? { weight: Number(weight) } : {}) });
    refresh('/admin/v1/tenants', '/admin/v1/limits');
  }).then((done) => { if (done) onClose(); });
  const left = leftOver(error, 'weight');
  return (
    <Dialog title={<>Change the limits of <bdi>{visible(of.path)}</bdi></>} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void change(); }}>
        <p>They hold from the next request on. What is used of a budget already counts.</p>
        <LimitFields texts={texts} onInput={setTexts} above={above} error={error} />
        <Text label="Weight" value={weight} onInput={setWeight} hint={`Its share when tenants compete for models and devices${above ? `; at most ${above.weight}, which ${visible(above.path)} has` : ''}.`}
          problem={wrongWeight ?? (error instanceof ApiError ? error.of('weight') : undefined)} />
        {left && <Problem error={left} />}
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" disabled={busy || anyWrong(texts) || wrongWeight !== undefined}>{busy ? 'Changing …' : 'Change the limits'}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
