// Any text at all must be read as what an engine says of itself: samples are views of the text and do not
// depend on other lines, and a report has only figures that a router can reckon with.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "plugins/engines/engine.h"
#include "plugins/engines/prometheus_text.h"

namespace {

using namespace plugins::engines;

void Require(bool holds) {
  if (!holds) std::abort();
}

bool Within(std::string_view part, std::string_view text) {
  return part.empty() ||
         (part.data() >= text.data() && part.data() + part.size() <= text.data() + text.size());
}

size_t Samples(std::string_view text) {
  size_t count = 0;
  ForEachSample(text, [&](const Sample& sample) {
    ++count;
    Require(!sample.name.empty() && Within(sample.name, text) && Within(sample.labels, text));
    for (const char* label : {"tp_rank", "num_gpu_blocks", ""})
      Require(Within(sample.Label(label).value_or(""), sample.labels));
  });
  return count;
}

void Check(const EngineReport& report, std::string_view body) {
  for (const std::optional<double>& figure :
       {report.running, report.waiting, report.kv_use, report.kv_tokens, report.max_running,
        report.prefix_queries, report.prefix_hits, report.started_at}) {
    Require(!figure || (std::isfinite(*figure) && *figure >= 0));
  }
  Require(!report.kv_use || *report.kv_use <= 1);
  Require(report.lora_running.size() + report.lora_waiting.size() <= body.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\n', size / 2);
  const size_t samples = Samples(text);
  if (cut != std::string_view::npos)
    Require(samples == Samples(text.substr(0, cut)) + Samples(text.substr(cut + 1)));
  EngineReport known;
  for (const EngineAdapter& adapter : EngineAdapters()) {
    for (const EngineSource& source : adapter.sources) {
      EngineReport report = source.read(text);
      Check(report, text);
      known.FillFrom(std::move(report));
    }
  }
  return 0;
}
