// The parts of a report's page: one file with its style, its script and its plots in it, nothing loaded.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scheduler::sim {

// The whole page; `body` is HTML.
std::string Page(std::string_view title, std::string_view body);

std::string Section(std::string_view title, std::string_view note, std::string_view content);

// The same, closed until the reader opens it.
std::string Folded(std::string_view title, std::string_view note, std::string_view content);

// Figures beside each other where the window is wide enough.
std::string Beside(std::string_view figures);

// A table: the first cell of a row is its name; columns are sorted by a press on their title. Titles and cells are
// text. `colored`: rows have the colours of the lines of plots, in order.
struct TableText {
  std::vector<std::string> titles{};
  std::vector<std::vector<std::string>> rows{};
  bool colored = false;
};
std::string SortableTable(const TableText& table);

// A plot with its caption and a place for what the pointer reads off.
std::string Figure(std::string_view title, std::string_view legend, std::string_view drawing);

// Names by their colour, in order.
std::string Legend(std::span<const std::string> names);

// An entry of the list at the head of the page.
std::string Fact(std::string_view name, std::string_view value);
std::string Heading(std::string_view title, std::string_view facts);

}  // namespace scheduler::sim
