// The style and the script of a report's page. Without the script, the read-outs under the pointer and the sorting of
// tables are missing.
#pragma once

#include <string_view>

namespace scheduler::sim {

// Classes c0 to c7 are the colours of policies, which colour-blind readers can distinguish, too.
inline constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--page:#fcfcfb;--ink:#1a1c1f;--soft:#5c6168;--rule:#d5d8dc;--grid:#e8eaed;
--c0:#d9622b;--c1:#1f6fd0;--c2:#2c8a4b;--c3:#8c4fc0;--c4:#b8860b;--c5:#c2337a;--c6:#3b8f94;--c7:#6b6f76}
@media (prefers-color-scheme:dark){:root{--page:#15171a;--ink:#e8eaed;--soft:#a1a7ae;--rule:#3d4248;--grid:#272b30;
--c0:#f08a55;--c1:#5fa4f5;--c2:#5cba7b;--c3:#b98ae6;--c4:#dbb042;--c5:#ee72aa;--c6:#6cc3c8;--c7:#9da2a9}
.heat{filter:invert(1) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1108px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:26px;line-height:1.2;margin:0 0 16px;overflow-wrap:anywhere}
h2{font-size:19px;margin:36px 0 2px}
details{margin:14px 0 0;border-top:1px solid var(--rule);padding-top:10px}
summary{font-size:17px;font-weight:600;cursor:pointer}
details .note{margin-top:6px}
dl{display:flex;flex-wrap:wrap;gap:8px 32px;margin:0}
dt,.note,output{color:var(--soft);font-size:13px}
dd{margin:0;overflow-wrap:anywhere}
.note{margin:0 0 12px;max-width:80ch}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:3px 18px 3px 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
thead th{border-bottom-color:var(--rule)}
th{font-weight:400}
thead th{font-weight:600;white-space:normal;vertical-align:bottom}
th:first-child,.unit{text-align:left}
.unit{color:var(--soft);font-weight:400}
tbody tr:hover{background:var(--grid)}
tbody th{position:sticky;left:0;background:var(--page);z-index:1}
.sortable thead button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:2px 0;cursor:pointer;text-align:inherit}
.sortable th[aria-sort=ascending] button::after{content:" ↑"}
.sortable th[aria-sort=descending] button::after{content:" ↓"}
figure{margin:20px 0 0;min-width:0}
figcaption{font-weight:600;overflow-wrap:anywhere}
.plot{overflow-x:auto}
.parts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:0 20px}
svg{display:block;width:100%;height:auto}
output{display:block;min-height:40px;padding-left:70px;font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;align-items:center;gap:2px 18px;margin:2px 0 6px;font-size:13px}
.legend .shades{display:flex}
.shades b{width:14px;height:12px}
i{display:inline-block;width:16px;height:3px;margin-right:7px;vertical-align:middle;background:var(--c)}
i.dashed{background:repeating-linear-gradient(90deg,var(--c) 0 5px,transparent 5px 8px)}
.dashed polyline{stroke-dasharray:5 3}
polyline{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.dot{stroke-width:4}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}
.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.grid line{stroke:var(--grid)}
.axis path{fill:none;stroke:var(--rule)}
.axis text{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.cursor{stroke:var(--soft);stroke-dasharray:2 3}
image{image-rendering:pixelated}
@media (max-width:640px){main{padding:20px 14px 48px}th,td{padding-right:14px}
tbody th{white-space:normal;min-width:104px;max-width:44vw}.axis text{font-size:15.5px}output{padding-left:0}}
@media print{body{background:none}section{break-inside:avoid-page}}
)css";

// Shows the value of each line at the pointer.
inline constexpr std::string_view kPageScript = R"js(
for (const svg of document.querySelectorAll('svg')) {
  const [x, y] = [svg.dataset.x, svg.dataset.y].map(scale => {
    const [from, to, begin, end, log] = scale.split(' ').map(Number);
    return {begin, end, at: p => { const s = (p - begin) / (end - begin);
      return log ? from * (to / from) ** s : from + s * (to - from); }};
  });
  const show = v => String(+v.toPrecision(4)), out = svg.closest('figure').querySelector('output');
  const [xs, ys] = [...svg.querySelectorAll('.label')].map(label => label.textContent);
  const lines = [...svg.querySelectorAll('.line')], cursor = svg.querySelector('.cursor');
  const move = p => { cursor.setAttribute('x1', p); cursor.setAttribute('x2', p); };
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if (at.x < x.begin || at.x > x.end) return;
    move(at.x);
    const values = lines.map(line => {
      for (const {points} of line.children) {
        let low = 0, high = points.numberOfItems - 1;
        if (points.getItem(high).x < at.x - 3) continue;
        if (points.getItem(0).x > at.x + 3) break;
        while (low < high) { const mid = low + high >> 1; points.getItem(mid).x < at.x ? low = mid + 1 : high = mid; }
        return line.dataset.name + ' ' + show(y.at(points.getItem(low).y));
      }
      return line.dataset.name + ' –';
    });
    if (!lines.length) values.push(String(Math.max(0, Math.floor(y.at(at.y)))));
    out.textContent = xs + ' ' + show(x.at(at.x)) + ' · ' + ys + ': ' + values.join(', ');
  });
  svg.addEventListener('pointerleave', () => { move(-9); out.textContent = ''; });
}
for (const table of document.querySelectorAll('.sortable')) {
  const heads = [...table.querySelectorAll('thead th')], body = table.tBodies[0];
  const key = (row, column) => { const text = row.cells[column].textContent, number = parseFloat(text);
    return column && !isNaN(number) ? number : text; };
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const way = head.getAttribute('aria-sort') == 'descending' ? 1 : -1;
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', way > 0 ? 'ascending' : 'descending');
      const rows = [...body.rows].map(row => [key(row, column), row]);
      rows.sort(([a], [b]) => way * (typeof a == 'number' && typeof b == 'number' ? a - b
        : typeof a == 'number' ? 1 : typeof b == 'number' ? -1 : a.localeCompare(b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
)js";

}  // namespace scheduler::sim
