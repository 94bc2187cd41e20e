// The style and the script of a report's page. Without the script only the read-outs under the pointer miss.
#pragma once

#include <string_view>

namespace scheduler::sim {

// Classes c0 to c7 are the colours of policies, which colour-blind readers can tell apart, too.
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
h2{font-size:19px;margin:44px 0 2px}
dl{display:flex;flex-wrap:wrap;gap:8px 32px;margin:0}
dt,.note,output{color:var(--soft);font-size:13px}
dd{margin:0;overflow-wrap:anywhere}
.note{margin:0 0 12px;max-width:80ch}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:3px 28px 3px 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
thead th{border-bottom-color:var(--rule)}
th{font-weight:400}
thead th{font-weight:600}
th:first-child,.unit{text-align:left}
.unit{color:var(--soft);font-weight:400}
tbody tr:hover{background:var(--grid)}
figure{margin:20px 0 0;min-width:0}
figcaption{font-weight:600;overflow-wrap:anywhere}
.plot{overflow-x:auto}
.parts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:0 20px}
svg{display:block;width:100%;min-width:600px;height:auto}
.parts svg{min-width:0}
.parts output{min-height:40px}
output{display:block;min-height:20px;padding-left:70px;font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;align-items:center;gap:2px 18px;margin:2px 0 6px;font-size:13px}
.legend .shades{display:flex}
.shades b{width:14px;height:12px}
i{display:inline-block;width:16px;height:3px;margin-right:7px;vertical-align:middle;background:var(--c)}
polyline{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linejoin:round}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}
.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.grid line{stroke:var(--grid)}
.axis path{fill:none;stroke:var(--rule)}
.axis text{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.cursor{stroke:var(--soft);stroke-dasharray:2 3}
image{image-rendering:pixelated}
@media (max-width:640px){main{padding:20px 14px 48px}th,td{padding-right:14px}tbody th{white-space:normal;min-width:104px}}
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
  const lines = [...svg.querySelectorAll('polyline')], cursor = svg.querySelector('.cursor');
  const move = p => { cursor.setAttribute('x1', p); cursor.setAttribute('x2', p); };
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if (at.x < x.begin || at.x > x.end) return;
    move(at.x);
    const values = lines.map(line => {
      const points = line.points;
      let low = 0, high = points.numberOfItems - 1;
      while (low < high) { const mid = low + high >> 1; points.getItem(mid).x < at.x ? low = mid + 1 : high = mid; }
      return line.dataset.name + ' ' + (high < 0 ? '–' : show(y.at(points.getItem(low).y)));
    });
    if (!lines.length) values.push(String(Math.max(0, Math.floor(y.at(at.y)))));
    out.textContent = xs + ' ' + show(x.at(at.x)) + ' · ' + ys + ': ' + values.join(', ');
  });
  svg.addEventListener('pointerleave', () => { move(-9); out.textContent = ''; });
}
)js";

}  // namespace scheduler::sim
