#include "gateway/config/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "conf/reader.h"

namespace gateway::config {
namespace {

constexpr size_t kMaxBands = 8;  // each has its own series of metrics

size_t Find(const std::vector<Band>& bands, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(bands, name, &Band::name) - bands.begin());
}

void CheckBands(conf::Object& o, const Queue& queue) {
  if (queue.bands.size() > kMaxBands) o.Error(fmt::format("must be at most {}", kMaxBands), "bands");
  std::set<std::string> names;
  double reserved = 0;
  for (const Band& band : queue.bands) {
    if (!band.name.empty() && !names.insert(band.name).second) {
      o.Error(fmt::format("band \"{}\" is given twice", band.name), "bands");
    }
    reserved += band.reserved;
  }
  if (reserved > 1) {
    o.Error(fmt::format("reserve {:g} of the queue in total; the sum must be at most 1", reserved), "bands");
  }
  if (!queue.default_band.empty() && !names.contains(queue.default_band)) {
    o.Error(fmt::format("\"{}\" is not a band of this queue: must be one of {}", queue.default_band,
                        fmt::join(names, ", ")),
            "default_band");
  }
}

}  // namespace

static void Bind(conf::Object& o, Band& band) {
  o.Required("name", band.name, ValidName());
  o.Optional("reserved", band.reserved, conf::Range{0.0, 1.0});
}

void Bind(conf::Object& o, Queue& queue) {
  o.Optional("enabled", queue.enabled);
  o.Optional("max_requests", queue.max_requests, conf::Range{1U, 1'000'000U});
  o.Optional("max_bytes", conf::Size(queue.max_bytes), conf::AtLeast{uint64_t{4096}});
  o.Optional("max_wait", queue.max_wait, conf::Positive());
  o.Optional("busy_for", queue.busy_for, conf::Positive());
  o.Optional("shorter_first", queue.shorter_first, conf::Range{0.0, 100.0});
  o.Optional("max_running", queue.max_running, conf::AtLeast{1U});
  o.Optional("batch_token_time", queue.batch_token_time, conf::Positive());
  o.Optional("bands", queue.bands, conf::NotEmpty());
  o.Optional("default_band", queue.default_band, ValidName());
  if (o.reading()) CheckBands(o, queue);
}

size_t Queue::BandOf(std::string_view priority) const {
  for (const std::string_view name : {priority, std::string_view(default_band), std::string_view("normal")}) {
    if (const size_t found = Find(bands, name); found < bands.size()) return found;
  }
  return bands.size() - 1;
}

}  // namespace gateway::config
