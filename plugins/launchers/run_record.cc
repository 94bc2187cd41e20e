#include "plugins/launchers/run_record.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"

namespace plugins::launchers {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::array<std::pair<std::string_view, RunState>, 3> kStates{
    {{"running", RunState::kRunning}, {"stopping", RunState::kStopping}, {"ended", RunState::kEnded}}};

// Takes fields out of an object and remembers the first that is missing or of another type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <class T>
  void Take(const char* key, T& out) {
    const auto found = object_.find(key);
    if (found == object_.end()) return Refuse(key, "is missing");
    if (!Fits(*found, out)) return Refuse(key, "has a value of another type");
    found->get_to(out);
  }
  template <class T>
  void Take(const char* key, std::optional<T>& out) {
    const auto found = object_.find(key);
    if (found == object_.end()) return Refuse(key, "is missing");
    if (!found->is_null()) Take(key, out.emplace());
  }
  void TakeTime(const char* key, conf::TimePoint& out) {
    int64_t micros = 0;
    Take(key, micros);
    out = conf::FromUnixMicros(micros);
  }
  void Refuse(std::string_view key, std::string_view what) {
    if (problem_.empty()) problem_ = std::string(key) + " " + std::string(what);
  }
  const std::string& problem() const { return problem_; }

 private:
  static bool Fits(const Json& value, const std::string&) { return value.is_string(); }
  static bool Fits(const Json& value, bool) { return value.is_boolean(); }
  template <std::integral T>
  static bool Fits(const Json& value, const T&) {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  }
  template <class T>
  static bool Fits(const Json& value, const std::vector<T>&) {
    if (!value.is_array()) return false;
    for (const Json& item : value) {
      if (!Fits(item, T())) return false;
    }
    return true;
  }

  const Json& object_;
  std::string problem_;
};

}  // namespace

std::string WriteRecord(const RunRecord& r) {
  const Grant& g = r.grant;
  const Json json = {
      {"version", kVersion},
      {"id", r.id},
      {"owner", r.owner},
      {"tenant", r.tenant},
      {"node", g.node},
      {"kind", g.kind},
      {"devices", g.devices},
      {"milli", g.milli},
      {"partition", g.partition},
      {"partition_start", g.partition_start},
      {"cpu_milli", g.cpu_milli},
      {"memory_mib", g.memory_mib},
      {"command", r.command},
      {"env_names", r.env_names},
      {"directory", r.directory},
      {"serves", r.serves},
      {"port", r.port},
      {"boot", r.boot},
      {"pid", r.pid},
      {"start_ticks", r.start_ticks},
      {"state", conf::WordOf<RunState>(kStates, r.state)},
      {"since", conf::ToUnixMicros(r.since)},
      {"kill_at", conf::ToUnixMicros(r.kill_at)},
      {"asked", r.asked},
      {"exit_code", r.exit_code ? Json(*r.exit_code) : Json()},
      {"signal", r.signal ? Json(*r.signal) : Json()},
      {"why", r.why},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunRecord> ReadRecord(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  Fields fields(json);
  int version = 0;
  fields.Take("version", version);
  if (fields.problem().empty() && version != kVersion)
    return absl::DataLossError("it is of version " + std::to_string(version) + ", this program writes " +
                               std::to_string(kVersion));
  RunRecord r;
  std::string state;
  fields.Take("id", r.id);
  fields.Take("owner", r.owner);
  fields.Take("tenant", r.tenant);
  fields.Take("node", r.grant.node);
  fields.Take("kind", r.grant.kind);
  fields.Take("devices", r.grant.devices);
  fields.Take("milli", r.grant.milli);
  fields.Take("partition", r.grant.partition);
  fields.Take("partition_start", r.grant.partition_start);
  fields.Take("cpu_milli", r.grant.cpu_milli);
  fields.Take("memory_mib", r.grant.memory_mib);
  fields.Take("command", r.command);
  fields.Take("env_names", r.env_names);
  fields.Take("directory", r.directory);
  fields.Take("serves", r.serves);
  fields.Take("port", r.port);
  fields.Take("boot", r.boot);
  fields.Take("pid", r.pid);
  fields.Take("start_ticks", r.start_ticks);
  fields.Take("state", state);
  fields.TakeTime("since", r.since);
  fields.TakeTime("kill_at", r.kill_at);
  fields.Take("asked", r.asked);
  fields.Take("exit_code", r.exit_code);
  fields.Take("signal", r.signal);
  fields.Take("why", r.why);
  bool known = false;
  for (const auto& [word, meaning] : kStates) {
    if (word != state) continue;
    r.state = meaning;
    known = true;
  }
  if (!known) fields.Refuse("state", "is none of running, stopping, ended");
  if (!fields.problem().empty()) return absl::DataLossError(conf::Abseil(fields.problem()));
  return r;
}

}  // namespace plugins::launchers
