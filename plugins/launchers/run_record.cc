#include "plugins/launchers/run_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"

namespace plugins::launchers {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;
constexpr int kWithoutWrapper = 1;
constexpr conf::Word<RunState> kStates[] = {
    {"running", RunState::kRunning}, {"stopping", RunState::kStopping}, {"ended", RunState::kEnded}};

constexpr conf::Word<Witness> kWitnesses[] = {{"nobody", Witness::kNobody},
                                              {"wrapper", Witness::kWrapper},
                                              {"manager", Witness::kManager},
                                              {"launcher", Witness::kLauncher}};

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
  void TakeTime(const char* key, std::optional<conf::TimePoint>& out) {
    std::optional<int64_t> micros;
    Take(key, micros);
    if (micros) out = conf::FromUnixMicros(*micros);
  }
  template <class T>
  void TakeWord(const char* key, conf::Words<std::type_identity_t<T>> words, T& out) {
    std::string word;
    Take(key, word);
    if (const std::optional<T> known = conf::ValueOf<T>(words, word)) {
      out = *known;
      return;
    }
    std::string all;
    for (const auto& [name, meaning] : words) all += (all.empty() ? "" : ", ") + std::string(name);
    Refuse(key, "is none of " + all);
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

std::string WriteRecord(const RunRecord& r, RecordLayout layout) {
  const DeviceGrant& g = r.grant;
  const auto time = [](const std::optional<conf::TimePoint>& at) {
    return at ? Json(conf::ToUnixMicros(*at)) : Json();
  };
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
      {"user", r.user},
      {"serves", r.serves},
      {"port", r.port},
      {"boot", r.boot},
      {"pid", r.pid},
      {"start_ticks", r.start_ticks},
      {"wrapped", r.wrapped},
      {"cgroup", r.cgroup},
      {"state", conf::WordOf(kStates, r.state)},
      {"since", conf::ToUnixMicros(r.since)},
      {"kill_at", conf::ToUnixMicros(r.kill_at)},
      {"asked", r.asked},
      {"exit_code", r.exit_code ? Json(*r.exit_code) : Json()},
      {"signal", r.signal ? Json(*r.signal) : Json()},
      {"why", r.why},
      {"started", time(r.started)},
      {"ended", time(r.ended)},
      {"witness", conf::WordOf(kWitnesses, r.witness)},
  };
  const bool lines = layout == RecordLayout::kLines;
  return json.dump(lines ? 2 : -1, ' ', false, Json::error_handler_t::replace) + (lines ? "\n" : "");
}

absl::StatusOr<RunRecord> ReadRecord(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  Fields fields(json);
  int version = 0;
  fields.Take("version", version);
  if (fields.problem().empty() && version != kVersion && version != kWithoutWrapper)
    return absl::DataLossError("it is of version " + std::to_string(version) + ", this program writes " +
                               std::to_string(kVersion));
  RunRecord r;
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
  fields.TakeWord("state", kStates, r.state);
  fields.TakeTime("since", r.since);
  fields.TakeTime("kill_at", r.kill_at);
  fields.Take("asked", r.asked);
  fields.Take("exit_code", r.exit_code);
  fields.Take("signal", r.signal);
  fields.Take("why", r.why);
  if (version == kWithoutWrapper) {
    r.wrapped = false;
  } else {
    fields.Take("wrapped", r.wrapped);
    fields.Take("cgroup", r.cgroup);
    fields.Take("user", r.user);
    fields.TakeTime("started", r.started);
    fields.TakeTime("ended", r.ended);
    fields.TakeWord("witness", kWitnesses, r.witness);
  }
  if (!fields.problem().empty()) return absl::DataLossError(conf::Abseil(fields.problem()));
  return r;
}

}  // namespace plugins::launchers
