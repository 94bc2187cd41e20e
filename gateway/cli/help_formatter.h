// How `--help` shows an option: its value and its default, without the list of options that it excludes; one line
// between two groups.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>

namespace gateway::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return {};
    std::string out;
    if (!option->get_type_name().empty()) out += " " + option->get_type_name();
    if (!option->get_default_str().empty()) out += "=" + option->get_default_str();
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) out += " ...";
    if (option->get_required()) out += " (required)";
    return out;
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string out = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at = out.find("\n\n\n"); at != std::string::npos; at = out.find("\n\n\n", at))
      out.erase(at, 1);
    return out;
  }
};

}  // namespace gateway::cli
