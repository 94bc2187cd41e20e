// The lines to paste, for the clients that people use.
import { useState } from 'preact/hooks';
import { useAll } from '../data';
import { may, me } from '../me';
import { hrefOf } from '../route';
import { Choice, Code, Section, Select, Text } from '../ui/basics';

type Snippet = (base: string, key: string, model: string) => string;

const SNIPPETS: [name: string, file: string, text: Snippet][] = [
  ['curl', 'In a shell', (base, key, model) => `curl ${base}/v1/chat/completions \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`],
  ['OpenAI, Python', 'pip install openai', (base, key, model) => `from openai import OpenAI

client = OpenAI(base_url="${base}/v1", api_key="${key}")
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`],
  ['OpenAI, TypeScript', 'npm install openai', (base, key, model) => `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: '${base}/v1', apiKey: '${key}' });
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer.choices[0].message.content);`],
  ['Anthropic, Python', 'pip install anthropic', (base, key, model) => `from anthropic import Anthropic

client = Anthropic(base_url="${base}", api_key="${key}")
answer = client.messages.create(
    model="${model}",
    max_tokens=256,
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.content[0].text)`],
  ['LangChain', 'pip install langchain-openai', (base, key, model) => `from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url="${base}/v1", api_key="${key}", model="${model}")
print(model.invoke("Hello").content)`],
  ['Claude Code', 'In the shell that starts it', (base, key, model) => `export ANTHROPIC_BASE_URL=${base}
export ANTHROPIC_AUTH_TOKEN=${key}
export ANTHROPIC_MODEL=${model}
claude`],
  ['Codex', '~/.codex/config.toml, and TIDEGATE_KEY in the environment', (base, key, model) => `# export TIDEGATE_KEY=${key}
model = "${model}"
model_provider = "tidegate"

[model_providers.tidegate]
name = "Tidegate"
base_url = "${base}/v1"
env_key = "TIDEGATE_KEY"`],
  ['Open WebUI', 'In the shell', (base, key) => `docker run -p 3000:8080 \\
  -e OPENAI_API_BASE_URL=${base}/v1 \\
  -e OPENAI_API_KEY=${key} \\
  ghcr.io/open-webui/open-webui:main`],
];

export function Start() {
  const models = useAll(may('see_models') ? '/admin/v1/models' : null).value?.data ?? [];
  const guess = me.value!.base_url;
  const [given, setGiven] = useState<string | undefined>();
  const [key, setKey] = useState('');
  const [model, setModel] = useState('');
  const [client, setClient] = useState(SNIPPETS[0]![0]);
  const base = (given ?? guess).replace(/\/+$/, '').replace(/\/v1$/, '');
  const chosen = model || models[0]?.name || 'MODEL';
  const [, where, text] = SNIPPETS.find(([name]) => name === client)!;
  return (
    <>
      <p class="lead">Every client of OpenAI or Anthropic works here. Two things change: the address and the key.</p>
      <Section title="What you call">
        <div class="form-row">
          <Text label="Address of the gateway" value={given ?? guess} mono onInput={setGiven} hint="Where applications reach it. The configuration says so; ask your operator when it does not answer." />
          {models.length > 0 && <Select label="Model" value={chosen} onChange={setModel} options={models.map((each) => [each.name, each.name])} hint="What your key may use is on the page Keys." />}
          <Text label="Your key" value={key} mono placeholder="tg-…" onInput={setKey}
            hint={may('change_keys') || may('change_own_keys') ? <>It stays in this page. <a href={hrefOf('keys', { new: 'key' })}>Make a key</a></> : 'It stays in this page and is sent nowhere.'} />
        </div>
      </Section>
      <Section title="What you paste">
        <Choice label="Client" value={client} onChange={setClient} options={SNIPPETS.map(([name]) => [name, name])} />
        <p class="hint">{where}</p>
        <Code text={text(base, key || 'YOUR_KEY', chosen)} label={`Lines for ${client}`} />
      </Section>
    </>
  );
}
