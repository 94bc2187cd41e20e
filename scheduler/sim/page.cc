#include "scheduler/sim/page.h"

#include <fmt/format.h>

#include "conf/html.h"
#include "scheduler/sim/page_style.h"
#include "scheduler/sim/plot.h"

namespace scheduler::sim {

std::string Page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}</main>\n<script>{}</script></body></"
      "html>\n",
      conf::HtmlEscaped(title), kPageStyle, body, kPageScript);
}

std::string Section(std::string_view title, std::string_view note, std::string_view content) {
  return fmt::format("<section><h2>{}</h2>\n<p class=\"note\">{}</p>\n{}</section>\n",
                     conf::HtmlEscaped(title), conf::HtmlEscaped(note), content);
}

std::string Folded(std::string_view title, std::string_view note, std::string_view content) {
  return fmt::format("<details><summary>{}</summary>\n<p class=\"note\">{}</p>\n{}</details>\n",
                     conf::HtmlEscaped(title), conf::HtmlEscaped(note), content);
}

std::string Beside(std::string_view figures) {
  return fmt::format("<div class=\"parts\">{}</div>", figures);
}

std::string SortableTable(const TableText& table) {
  std::string out = R"(<div class="plot"><table class="sortable"><thead><tr>)";
  for (const std::string& title : table.titles)
    out += fmt::format(R"(<th scope="col">{}</th>)", conf::HtmlEscaped(title));
  out += "</tr></thead><tbody>";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::vector<std::string>& cells = table.rows[row];
    const std::string color =
        table.colored ? fmt::format(R"(<i class="{}"></i>)", ColorClass(row)) : std::string();
    out += fmt::format("\n<tr><th scope=\"row\">{}{}</th>", color, conf::HtmlEscaped(cells.front()));
    for (size_t i = 1; i < cells.size(); ++i) out += fmt::format("<td>{}</td>", conf::HtmlEscaped(cells[i]));
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string Figure(std::string_view title, std::string_view legend, std::string_view drawing) {
  return fmt::format(
      "<figure><figcaption>{}</figcaption>{}<div class=\"plot\">{}</div><output></output></figure>\n",
      conf::HtmlEscaped(title), legend, drawing);
}

std::string Legend(std::span<const std::string> names) {
  std::string out = R"(<p class="legend">)";
  for (size_t i = 0; i < names.size(); ++i) {
    out += fmt::format(R"(<span><i class="{}"></i>{}</span> )", ColorClass(i), conf::HtmlEscaped(names[i]));
  }
  return out + "</p>";
}

std::string Fact(std::string_view name, std::string_view value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", conf::HtmlEscaped(name), conf::HtmlEscaped(value));
}

std::string Heading(std::string_view title, std::string_view facts) {
  return fmt::format("<header><h1>{}</h1>\n<dl>{}</dl></header>\n", conf::HtmlEscaped(title), facts);
}

}  // namespace scheduler::sim
