#include "plugins/weights/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/json_parse.h"

namespace plugins::weights {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = "tidegate-weights: ";
constexpr conf::Word<FetchPhase> kPhases[] = {{"waiting", FetchPhase::kWaiting},
                                              {"fetching", FetchPhase::kFetching},
                                              {"verifying", FetchPhase::kVerifying},
                                              {"fetched", FetchPhase::kFetched},
                                              {"failed", FetchPhase::kFailed}};

}  // namespace

conf::Words<FetchPhase> WordsOf(FetchPhase) {
  return kPhases;
}

std::string ProgressLine(const FetchProgress& progress) {
  json out = {{"phase", conf::WordOf(kPhases, progress.phase)},
              {"bytes", progress.bytes},
              {"of", progress.of},
              {"unix_ms", conf::ToUnixMicros(progress.at) / 1000}};
  if (progress.phase == FetchPhase::kFetched) {
    out["transferred"] = progress.transferred;
    out["holds"] = progress.holds;
    if (progress.neighbours > 0) out["neighbours"] = progress.neighbours;
    if (!progress.notes.empty()) out["notes"] = progress.notes;
  }
  if (!progress.why.empty()) out["why"] = progress.why;
  return fmt::format("{}{}\n", kMark, conf::DumpJson(out));
}

bool IsProgressLine(std::string_view line) {
  return line.starts_with(kMark);
}

// An engine may print anything: a line counts only when all of it has the form.
std::optional<FetchProgress> LastProgress(std::string_view log) {
  while (true) {
    const size_t at = log.rfind(kMark);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = log.substr(at + kMark.size());
    const size_t end = rest.find('\n');
    const bool begins_line = at == 0 || log[at - 1] == '\n';
    if (begins_line && end != std::string_view::npos) {
      const json in = conf::ParseJson(rest.substr(0, end));
      if (in.is_object()) {
        try {
          FetchProgress out;
          if (const auto phase = conf::ValueOf(kPhases, in.at("phase").get<std::string>())) {
            out.phase = *phase;
            out.bytes = in.at("bytes").get<uint64_t>();
            out.of = in.at("of").get<uint64_t>();
            out.at = conf::FromUnixMicros(
                std::clamp<int64_t>(in.at("unix_ms").get<int64_t>(), 0, INT64_MAX / 1000) * 1000);
            out.transferred = in.value("transferred", uint64_t{0});
            out.neighbours = std::min(in.value("neighbours", uint64_t{0}), out.transferred);
            out.notes = in.value("notes", std::vector<std::string>());
            out.notes.resize(std::min(out.notes.size(), FetchProgress::kMostNotes));
            for (std::string& note : out.notes)
              note.resize(std::min(note.size(), FetchProgress::kLongestNote));
            out.why = in.value("why", std::string());
            out.holds = in.value("holds", std::vector<std::string>());
            return out;
          }
        } catch (const json::exception&) {
          // Not a line of ours.
        }
      }
    }
    log = log.substr(0, at);
  }
}

}  // namespace plugins::weights
