// Builds the pages into dist/: index.html and hashed assets, each with its gzip and brotli form.
//
//   node build.mjs              dist/ alone, and the sizes
//   node build.mjs --cc FILE    also the C++ file that the gateway links (see ../assets.h)
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');
const TYPES = {
  html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml',
};

const hashOf = (data) => createHash('sha256').update(data).digest('hex').slice(0, 16);

function compress(data) {
  const brotli = brotliCompressSync(data, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: data.length },
  });
  return { plain: data, gzip: gzipSync(data, { level: 9 }), brotli };
}

// A C++ string literal. Octal escapes end after three digits, whatever follows.
function literal(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 96) {
    let line = '';
    for (const byte of data.subarray(at, at + 96)) {
      const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c && byte !== 0x3f;
      line += plain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
    }
    lines.push(`"${line}"`);
  }
  return `std::string_view(${lines.join('\n') || '""'}, ${data.length})`;
}

const built = await build({
  absWorkingDir: root,
  entryPoints: { console: 'src/main.tsx' },
  outdir: 'dist/assets',
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  write: false,
  logLevel: 'warning',
});

const files = [];
const add = (path, data) => files.push({ path, type: TYPES[path.split('.').pop()], hash: hashOf(data), ...compress(data) });
const named = {};
for (const { path, contents } of built.outputFiles) {
  const extension = path.split('.').pop();
  const data = Buffer.from(contents);
  named[extension] = `/assets/console-${hashOf(data)}.${extension}`;
  add(named[extension], data);
}
const icon = readFileSync(join(root, 'src/icon.svg'));
named.svg = `/assets/icon-${hashOf(icon)}.svg`;
add(named.svg, icon);
const html = readFileSync(join(root, 'src/index.html'), 'utf8')
  .replace('{{js}}', named.js).replace('{{css}}', named.css).replace('{{icon}}', named.svg);
add('/index.html', Buffer.from(html));

rmSync(dist, { recursive: true, force: true });
for (const file of files) {
  const path = join(dist, file.path);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, file.plain);
  writeFileSync(`${path}.gz`, file.gzip);
  writeFileSync(`${path}.br`, file.brotli);
}

const cc = process.argv[process.argv.indexOf('--cc') + 1];
if (process.argv.includes('--cc')) {
  const pages = JSON.parse(readFileSync(join(root, 'src/page_names.json'), 'utf8'));
  writeFileSync(cc, `// The pages of the console. Made by build.mjs.
#include "gateway/console/assets.h"

namespace gateway::console {
namespace {

constexpr Asset kAssets[] = {
${files.map((f) => `{"${f.path}", "${f.type}", "${f.hash}",\n${[f.plain, f.gzip, f.brotli].map(literal).join(',\n')}},`).join('\n')}
};

constexpr std::string_view kPageNames[] = {${pages.map((name) => `"${name}"`).join(', ')}};

}  // namespace

std::span<const Asset> Assets() { return kAssets; }

std::span<const std::string_view> PageNames() { return kPageNames; }

}  // namespace gateway::console
`);
} else {
  for (const { path, plain, gzip, brotli } of files) {
    console.log(`${path}  ${(plain.length / 1000).toFixed(1)} kB, gzip ${(gzip.length / 1000).toFixed(1)}, brotli ${(brotli.length / 1000).toFixed(1)}`);
  }
}
