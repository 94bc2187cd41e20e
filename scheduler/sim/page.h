// The parts of a report's page: one file with its style, its script and its plots in it, nothing loaded.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace scheduler::sim {

// The whole page; `body` is HTML.
std::string Page(std::string_view title, std::string_view body);

std::string Section(std::string_view title, std::string_view note, std::string_view content);

// A plot with its caption and a place for what the pointer reads off.
std::string Figure(std::string_view title, std::string_view legend, std::string_view drawing);

// Names by their colour, in order.
std::string Legend(std::span<const std::string> names);

// An entry of the list at the head of the page.
std::string Fact(std::string_view name, std::string_view value);
std::string Heading(std::string_view title, std::string_view facts);

}  // namespace scheduler::sim
