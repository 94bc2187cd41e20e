// Writes the types of the admin API, from its OpenAPI document.
//
//   node generate_types.mjs URL-OR-FILE > src/api_types.ts
import { readFileSync } from 'node:fs';

const where = process.argv[2];
if (!where) {
  console.error('usage: node generate_types.mjs http://127.0.0.1:9090/admin/v1/openapi.json');
  process.exit(2);
}
const text = /^https?:/.test(where) ? await (await fetch(where)).text() : readFileSync(where, 'utf8');
const openapi = JSON.parse(text);

// Names that TypeScript has, too, get another.
const named = (key) => (['Error', 'Record', 'Document'].includes(key) ? `Api${key}` : key);
const name = (key) => (/^[A-Za-z_]\w*$/.test(key) ? key : JSON.stringify(key));

function type(schema, indent = '') {
  if (schema.$ref) return named(schema.$ref.split('/').pop());
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const any = schema.anyOf ?? schema.oneOf;
  if (any) return any.map((each) => type(each, indent)).join(' | ');
  if (schema.allOf) return schema.allOf.map((each) => type(each, indent)).join(' & ');
  if (Array.isArray(schema.type)) return schema.type.map((one) => type({ ...schema, type: one }, indent)).join(' | ');
  switch (schema.type) {
    case 'string': return 'string';
    case 'integer': case 'number': return 'number';
    case 'boolean': return 'boolean';
    case 'null': return 'null';
    case 'array': {
      const of = type(schema.items ?? {}, indent);
      return / [|&] /.test(of) && !of.startsWith('{') ? `(${of})[]` : `${of}[]`;
    }
    case 'object': {
      const members = Object.entries(schema.properties ?? {});
      if (members.length === 0) {
        const of = schema.additionalProperties;
        return `{ [member: string]: ${of && of !== true ? type(of, indent) : 'unknown'} }`;
      }
      const inner = `${indent}  `;
      const required = new Set(schema.required ?? []);
      const lines = members.map(([key, of]) => `${inner}${name(key)}${required.has(key) ? '' : '?'}: ${type(of, inner)};`);
      return `{\n${lines.join('\n')}\n${indent}}`;
    }
    default: return 'unknown';
  }
}

const out = ['// The types of the admin API. Made by generate_types.mjs from its OpenAPI document.'];
for (const [key, schema] of Object.entries(openapi.components.schemas)) {
  out.push(`export type ${named(key)} = ${type(schema)};`);
}
const calls = { get: [], post: [], delete: [] };
for (const [path, methods] of Object.entries(openapi.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const good = Object.entries(operation.responses).find(([status]) => status.startsWith('2'))?.[1];
    const schema = good?.content?.['application/json']?.schema;
    if (!schema || !calls[method]) continue;
    const body = operation.requestBody?.content?.['application/json']?.schema;
    calls[method].push(`  ${JSON.stringify(path)}: ${method !== 'post' ? type(schema, '  ') : `{
    body: ${body ? type(body, '    ') : 'undefined'};
    answer: ${type(schema, '    ')};
  }`};`);
  }
}
out.push(`// The answers of GET, by path.\nexport type Gets = {\n${calls.get.join('\n')}\n};`);
out.push(`// The bodies and answers of POST, by path.\nexport type Posts = {\n${calls.post.join('\n')}\n};`);
out.push(`// The answers of DELETE, by path.\nexport type Deletes = {\n${calls.delete.join('\n')}\n};`);
console.log(out.join('\n\n'));
