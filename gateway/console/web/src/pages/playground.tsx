// Ask any model that one may use, or two side by side, and see what the gateway did for each answer.
import { type Signal, useComputed, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiError, call, posted } from '../api';
import { useAll } from '../data';
import { duration, money, short } from '../format';
import { may, me } from '../me';
import { hrefOf, query, setQuery, tenant } from '../route';
import { useTypedSignal } from '../typed';
import { Button, Choice, Code, Copy, Empty, Field, Num, Problem } from '../ui/basics';
import { Dialog } from '../ui/dialog';

interface Part { type: 'text' | 'image_url'; text?: string; image_url?: { url: string } }
interface ToolCall { id: string; type: 'function'; function: { name: string; arguments: string } }
interface Message { role: 'system' | 'user' | 'assistant'; content: string | Part[]; tool_calls?: ToolCall[] }

interface Measures {
  firstMs?: number;
  totalMs?: number;
  input?: number;
  cached?: number;
  output?: number;
  costMicroUsd?: number;
  replica?: string;
  queueMs?: number;
  requestId?: string;
}

interface Answer {
  model: string;
  text: string;
  thinking: string;
  tools: ToolCall[];
  state: 'waits' | 'streams' | 'done' | 'stopped' | 'failed';
  error?: Error;
  measures: Measures;
}

interface Turn { user: Message; answers: Answer[] }

interface Settings { system: string; maxTokens: string; temperature: string; tools: string; schema: string }

const NO_SETTINGS: Settings = { system: '', maxTokens: '', temperature: '', tools: '', schema: '' };

function parsed(text: string): { value?: unknown; problem?: string } {
  if (!text.trim()) return {};
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

// The body of a chat request, as an application would send it.
function requestOf(model: string, turns: Turn[], index: number, asked: Message, settings: Settings): Record<string, unknown> {
  const messages: Message[] = [];
  if (settings.system.trim()) messages.push({ role: 'system', content: settings.system });
  for (const turn of turns) {
    const answer = turn.answers[index] ?? turn.answers[0];
    messages.push(turn.user);
    if (answer?.text) messages.push({ role: 'assistant', content: answer.text });
  }
  messages.push(asked);
  const tools = parsed(settings.tools).value;
  const schema = parsed(settings.schema).value;
  return {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    ...(settings.maxTokens ? { max_tokens: Number(settings.maxTokens) } : {}),
    ...(settings.temperature ? { temperature: Number(settings.temperature) } : {}),
    ...(tools ? { tools } : {}),
    ...(schema ? { response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } } } : {}),
  };
}

// The events of a stream: their name, and a JSON text each.
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<{ name: string; data: string }> {
  const decoder = new TextDecoder();
  let rest = '';
  for (const reader = body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    for (let end = rest.search(/\r?\n\r?\n/); end >= 0; end = rest.search(/\r?\n\r?\n/)) {
      const event = rest.slice(0, end);
      rest = rest.slice(end).replace(/^\r?\n\r?\n/, '');
      const lines = event.split(/\r?\n/);
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart()).join('\n');
      const name = lines.find((line) => line.startsWith('event:'))?.slice(6).trim() ?? '';
      if (data) yield { name, data };
    }
  }
}

// What the gateway's ledger has of the request, sent behind the end of the answer.
interface Summary {
  request_id: string;
  error: string | null;
  replica: string | null;
  queue_ms: number | null;
  ttft_ms: number | null;
  duration_ms: number | null;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_micro_usd: number;
}

function measuresOf(of: Summary): Measures {
  return {
    requestId: of.request_id,
    input: of.input_tokens,
    cached: of.cached_tokens,
    output: of.output_tokens,
    costMicroUsd: of.cost_micro_usd,
    ...(of.replica === null ? {} : { replica: of.replica }),
    ...(of.queue_ms === null ? {} : { queueMs: of.queue_ms }),
    ...(of.ttft_ms === null ? {} : { firstMs: of.ttft_ms }),
    ...(of.duration_ms === null ? {} : { totalMs: of.duration_ms }),
  };
}

const MOST_BYTES = 4_000_000; // of a request, with its pictures and those of the turns before
const MOST_PICTURES = 4;
const MOST_OF_PICTURE = 700_000; // characters of its data URL; a larger one is made smaller
const LONGEST_SIDE = 1536;

// The picture as a data URL.
async function pictureOf(file: File): Promise<string> {
  const whole = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
  if (whole.length <= MOST_OF_PICTURE) return whole;
  const bitmap = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} is not a picture that this browser knows`); });
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  for (const quality of [0.85, 0.6]) {
    const smaller = canvas.toDataURL('image/jpeg', quality);
    if (smaller.length <= MOST_OF_PICTURE) return smaller;
  }
  throw new Error(`${file.name} is too large`);
}

async function ask(request: Record<string, unknown>, of: string, stop: AbortSignal, show: (change: Partial<Answer>) => void) {
  const began = performance.now();
  let measures: Measures = {};
  let text = '';
  let thinking = '';
  const tools: ToolCall[] = [];
  try {
    const init = posted({ ...(of ? { tenant: of } : {}), request }, stop);
    if (String(init.body).length > MOST_BYTES) throw new ApiError(413, 'request_too_large', 'This conversation and its pictures are too large; begin anew, or take pictures out', '');
    const response = await call('/admin/v1/playground', init);
    measures.requestId = response.headers.get('x-request-id') ?? undefined!;
    measures.replica = response.headers.get('x-tidegate-replica') ?? undefined!;
    const queue = response.headers.get('x-tidegate-queue-ms');
    if (queue !== null) measures.queueMs = Number(queue);
    show({ state: 'streams', measures: { ...measures } });
    let over = false;
    for await (const { name, data } of eventsOf(response.body!)) {
      if (data === '[DONE]') { over = true; continue; }
      const event = JSON.parse(data);
      if (name === 'summary') {
        measures = measuresOf(event);
        show({ measures });
        continue;
      }
      if (event.error) throw new ApiError(502, event.error.code ?? 'failed', event.error.message ?? 'the stream failed', measures.requestId ?? '');
      const delta = event.choices?.[0]?.delta;
      if (delta && measures.firstMs === undefined && (delta.content || delta.reasoning_content || delta.tool_calls)) measures.firstMs = performance.now() - began;
      if (delta?.content) text += delta.content;
      if (delta?.reasoning_content) thinking += delta.reasoning_content;
      for (const part of delta?.tool_calls ?? []) {
        const tool = (tools[part.index] ??= { id: part.id ?? '', type: 'function', function: { name: '', arguments: '' } });
        tool.function.name += part.function?.name ?? '';
        tool.function.arguments += part.function?.arguments ?? '';
      }
      if (event.usage) {
        measures.input = event.usage.prompt_tokens;
        measures.cached = event.usage.prompt_tokens_details?.cached_tokens ?? 0;
        measures.output = event.usage.completion_tokens;
      }
      measures.totalMs = performance.now() - began;
      show({ text, thinking, tools: [...tools], measures: { ...measures } });
    }
    if (!over) throw new ApiError(502, 'broken_off', 'the answer broke off before its end', measures.requestId ?? '');
    show({ state: 'done' });
  } catch (error) {
    if ((error as Error).name === 'AbortError') show({ state: 'stopped' });
    else show({ state: 'failed', error: error as Error });
  }
}

export function Playground() {
  const models = useAll('/admin/v1/models').value?.data ?? [];
  const chat = models.filter((model) => model.endpoints.length === 0 || model.endpoints.some((name) => name.startsWith('chat')));
  const names = (chat.length > 0 ? chat : models).map((model) => model.name);
  const tenants = useAll(may('see_tenants') ? '/admin/v1/tenants' : null).value?.data.map((each) => each.path) ?? me.value?.tenants ?? [];
  const turns = useSignal<Turn[]>([]);
  const settings = useTypedSignal<Settings>('playground.settings', NO_SETTINGS);
  const text = useTypedSignal('playground.text', '');
  const images = useSignal<string[]>([]);
  const pictureProblem = useSignal('');
  const showing = useSignal('');
  const stops = useRef<AbortController | null>(null);
  const of = tenant.value || tenants[0] || '';
  const first = query.value.get('model') ?? names[0] ?? '';
  const second = query.value.get('beside') ?? '';
  const chosen = second ? [first, second] : [first];
  const busy = useComputed(() => turns.value.some((turn) => turn.answers.some((each) => each.state === 'waits' || each.state === 'streams')));
  const wrong = useComputed(() => parsed(settings.value.tools).problem ?? parsed(settings.value.schema).problem);
  useEffect(() => () => stops.current?.abort(), []);

  const send = () => {
    if (busy.value || wrong.value || !first || (!text.value.trim() && images.value.length === 0)) return;
    const user: Message = {
      role: 'user',
      content: images.value.length === 0 ? text.value : [{ type: 'text', text: text.value }, ...images.value.map((url): Part => ({ type: 'image_url', image_url: { url } }))],
    };
    const before = turns.value;
    const turn: Turn = { user, answers: chosen.map((model) => ({ model, text: '', thinking: '', tools: [], state: 'waits', measures: {} })) };
    turns.value = [...before, turn];
    text.value = '';
    images.value = [];
    const stop = (stops.current = new AbortController());
    chosen.forEach((model, index) => {
      const show = (change: Partial<Answer>) => {
        turns.value = turns.value.map((each, at) => (at !== before.length ? each : { ...each, answers: each.answers.map((answer, which) => (which === index ? { ...answer, ...change } : answer)) }));
      };
      void ask(requestOf(model, before, index, user, settings.value), of, stop.signal, show);
    });
  };

  const addImages = async (files: File[]) => {
    pictureProblem.value = '';
    for (const file of files) {
      if (images.value.length >= MOST_PICTURES) { pictureProblem.value = `A message takes ${MOST_PICTURES} pictures.`; return; }
      try {
        images.value = [...images.value, await pictureOf(file)];
      } catch (error) {
        pictureProblem.value = (error as Error).message;
      }
    }
  };

  if (models.length > 0 && names.length === 0) return <Empty title="No model answers chats here" />;
  return (
    <div class="playground">
      <div class="talk">
        <div class="tools">
          <select aria-label="Model" value={first} onChange={(event) => setQuery({ model: event.currentTarget.value }, true)}>{names.map((name) => <option key={name}>{name}</option>)}</select>
          <select aria-label="Second model, beside the first" value={second} onChange={(event) => setQuery({ beside: event.currentTarget.value }, true)}>
            <option value="">and no other</option>
            {names.map((name) => <option key={name} value={name}>beside {name}</option>)}
          </select>
          <span class="space" />
          {turns.value.length > 0 && !busy.value && <Button kind="quiet" onClick={() => { turns.value = []; }}>Begin anew</Button>}
          <Button kind="quiet" disabled={!first} onClick={() => { showing.value = 'curl'; }}>As code</Button>
        </div>
        <div class="turns" aria-live="off">
          {turns.value.length === 0 && <Empty title="Ask something">The answer streams in, with its first token, tokens, cost, replica and queue time. It is charged to {of ? <bdi>{of}</bdi> : 'your tenant'}.</Empty>}
          {turns.value.map((turn, at) => (
            <div key={at} class="turn">
              <div class="asked"><Said content={turn.user.content} /></div>
              <div class={`answers ${turn.answers.length > 1 ? 'two' : ''}`}>{turn.answers.map((each, index) => <Answered key={index} of={each} />)}</div>
            </div>
          ))}
        </div>
        <form class="ask" onSubmit={(event) => { event.preventDefault(); send(); }}>
          <textarea aria-label="Message" rows={3} placeholder="Your message" title="Enter sends; Shift and Enter begin a line" value={text.value} onInput={(event) => { text.value = event.currentTarget.value; }}
            onKeyDown={(event) => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); } }} />
          {images.value.length > 0 && <p class="pictures">{images.value.map((url, at) => <button key={at} type="button" title="Take it out" aria-label={`Take picture ${at + 1} out`} onClick={() => { images.value = images.value.filter((_, which) => which !== at); }}><img src={url} alt="" /></button>)}</p>}
          {pictureProblem.value && <p class="hint" role="alert">{pictureProblem.value}</p>}
          <div class="ask-foot">
            <label class="button quiet">Add a picture<input class="hidden" type="file" accept="image/*" multiple onChange={(event) => { void addImages([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ''; }} /></label>
            <span class="space" />
            {busy.value ? <Button onClick={() => stops.current?.abort()}>Stop</Button> : <Button type="submit" kind="primary" disabled={!first || !!wrong.value}>Send</Button>}
          </div>
        </form>
      </div>
      <SettingsForm settings={settings} />
      {showing.value && <AsCode how={showing} request={requestOf(first, turns.value, 0, { role: 'user', content: text.value || 'Hello' }, settings.value)} />}
    </div>
  );
}

function Said({ content }: { content: string | Part[] }) {
  if (typeof content === 'string') return <>{content}</>;
  return <>{content.map((part, at) => (part.type === 'text' ? <span key={at}>{part.text}</span> : <img key={at} src={part.image_url!.url} alt="A picture of the question" />))}</>;
}

function Answered({ of }: { of: Answer }) {
  const { measures } = of;
  const rate = measures.output && measures.totalMs && measures.firstMs && measures.totalMs > measures.firstMs ? (measures.output - 1) / ((measures.totalMs - measures.firstMs) / 1000) : undefined;
  return (
    <article class="answer" aria-label={`Answer of ${of.model}`} aria-busy={of.state === 'waits' || of.state === 'streams'}>
      <p class="card-head"><b><bdi>{of.model}</bdi></b><span class="faint">{{ waits: 'waits for its first token …', streams: 'streams', done: '', stopped: 'stopped by you', failed: '' }[of.state]}</span></p>
      {of.thinking && <details><summary>Reasoning</summary><p class="said faint">{of.thinking}</p></details>}
      <p class="said">{of.text}</p>
      {of.tools.map((tool, at) => <pre key={at} class="file" tabIndex={0}>{`${tool.function.name}(${tool.function.arguments})`}</pre>)}
      {of.error && <Problem error={of.error} />}
      <p class="measures">
        {measures.firstMs !== undefined && <span>first token <Num of={duration(measures.firstMs)} /></span>}
        {rate !== undefined && <span><Num of={short(rate)} unit="tok/s" /></span>}
        {measures.input !== undefined && <span><Num of={short(measures.input)} unit="in" />{(measures.cached ?? 0) > 0 && <>, <Num of={short(measures.cached!)} unit="cached" /></>}, <Num of={short(measures.output ?? 0)} unit="out" /></span>}
        {measures.costMicroUsd !== undefined && <span><Num of={money(measures.costMicroUsd)} /></span>}
        {measures.queueMs !== undefined && measures.queueMs > 0 && <span>waited <Num of={duration(measures.queueMs)} /></span>}
        {measures.replica && <span>on <a href={hrefOf('models', { open: `model:${of.model}` })}><bdi>{measures.replica}</bdi></a></span>}
        {measures.requestId && <code>{measures.requestId}</code>}
        {of.state === 'done' && of.text && <Copy text={of.text} />}
      </p>
    </article>
  );
}

function SettingsForm({ settings }: { settings: Signal<Settings> }) {
  const change = (key: keyof Settings) => (event: { currentTarget: { value: string } }) => { settings.value = { ...settings.value, [key]: event.currentTarget.value }; };
  const area = (key: 'system' | 'tools' | 'schema', label: string, rows: number, hint: string, placeholder: string) => (
    <Field label={label} hint={hint} problem={key === 'system' ? undefined : parsed(settings.value[key]).problem}>
      {(id, described) => <textarea id={id} class={key === 'system' ? '' : 'mono'} rows={rows} value={settings.value[key]} placeholder={placeholder} aria-describedby={described} spellcheck={key === 'system'} onInput={change(key)} />}
    </Field>
  );
  const number = (key: 'maxTokens' | 'temperature', label: string, step: string, least: string) => (
    <Field label={label}>{(id) => <input id={id} type="number" min={least} step={step} placeholder="the model's" value={settings.value[key]} onInput={change(key)} />}</Field>
  );
  return (
    <details class="settings" open={innerWidth > 1100}>
      <summary>Settings</summary>
      {area('system', 'System message', 3, '', 'You are …')}
      {number('maxTokens', 'Tokens at most', '1', '1')}
      {number('temperature', 'Temperature', '0.1', '0')}
      {area('tools', 'Tools', 3, 'A JSON array, as in the OpenAI API', '[{"type": "function", "function": {…}}]')}
      {area('schema', 'JSON schema of the answer', 3, 'The answer is then JSON of this form', '{"type": "object", …}')}
    </details>
  );
}

function AsCode({ how, request }: { how: Signal<string>; request: Record<string, unknown> }) {
  const base = me.value!.base_url;
  const { stream: _stream, stream_options: _options, ...plain } = request;
  const json = JSON.stringify(plain, null, 2);
  const texts: Record<string, string> = {
    curl: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer $TIDEGATE_KEY" -H "Content-Type: application/json" \\\n  -d '${json.replaceAll("'", "'\\''")}'`,
    Python: `import json, os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key=os.environ["TIDEGATE_KEY"])\nrequest = json.loads(r'''${json.replaceAll("'''", "\\u0027\\u0027\\u0027")}''')\nprint(client.chat.completions.create(**request).choices[0].message.content)`,
    TypeScript: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${base}', apiKey: process.env.TIDEGATE_KEY });\nconst answer = await client.chat.completions.create(${json});\nconsole.log(answer.choices[0].message.content);`,
  };
  return (
    <Dialog title="This request as code" onClose={() => { how.value = ''; }}>
      <Choice label="Language" value={how.value} options={Object.keys(texts).map((name) => [name, name])} onChange={(to) => { how.value = to; }} />
      <p class="hint">TIDEGATE_KEY is a key of yours; <a href={hrefOf('keys', { new: 'key' })}>make one</a> if you have none.</p>
      <Code text={texts[how.value] ?? ''} label={`The request in ${how.value}`} />
    </Dialog>
  );
}
