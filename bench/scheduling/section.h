// A part of the scheduler's benchmark: measures something and puts ours beside published figures.
//
// sections.cc has the one list; a section is one file and one line there.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace bench::scheduling {

struct Options {
  std::string traces;  // folder with the recorded traces, of which a section names the part that it needs
  std::string openb;   // folder of lists for openb; empty: that of `traces`
  uint32_t seeds = 10;
  unsigned threads = 1;  // for counting, not for timing
  bool quick = false;    // does it work: fewer seeds and rounds
  std::string only;      // of a section's settings, those whose title has this; empty: all
};

struct Section {
  std::string_view name;  // of the command line, and the key in --json
  std::string_view what;  // for people, one line
  // Prints a table and fills `out`; progress goes to stderr.
  absl::Status (*run)(const Options& options, nlohmann::json& out);
};

std::span<const Section> Sections();

absl::Status RunOpenb(const Options& options, nlohmann::json& out);
absl::Status RunSpeed(const Options& options, nlohmann::json& out);
absl::Status RunPhilly(const Options& options, nlohmann::json& out);
absl::Status RunGangs(const Options& options, nlohmann::json& out);
absl::Status RunFairShare(const Options& options, nlohmann::json& out);
absl::Status RunPreemption(const Options& options, nlohmann::json& out);

}  // namespace bench::scheduling
