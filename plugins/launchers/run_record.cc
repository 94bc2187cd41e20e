#include "plugins/launchers/run_record.h"

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "conf/fields.h"
#include "conf/json_parse.h"
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

// Writes every field: null for an empty std::optional, times in microseconds since the epoch.
class RecordWriter {
 public:
  explicit RecordWriter(Json& out) : out_(&out) {}

  void Required(const char* key, const auto& field) { (*out_)[key] = Written(field); }
  void Always(const char* key, const auto& field) { Required(key, field); }
  void Inline(auto& part) { Bind(*this, part); }
  void NotWritten(const auto&) {}

 private:
  template <class T>
  static Json Written(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return Json(conf::WordOf<T>(WordsOf(value), value));
    } else {
      return Json(value);
    }
  }
  static Json Written(conf::TimePoint at) { return Json(conf::ToUnixMicros(at)); }
  template <class T>
  static Json Written(const std::optional<T>& value) {
    return value ? Written(*value) : Json();
  }

  Json* out_;
};

// Remembers the first field that is missing or of another type; passes over members that it does not know.
class RecordReader {
 public:
  explicit RecordReader(const Json& object) : object_(&object) {}

  template <class T>
  void Required(const char* key, T& field) {
    const auto found = object_->find(key);
    const std::string problem = found == object_->end() ? "is missing" : Read(*found, field);
    if (problem_.empty() && !problem.empty()) problem_ = std::string(key) + " " + problem;
  }
  // A field that came with the wrapper.
  template <class T>
  void Always(const char* key, T& field) {
    if (!without_wrapper_) Required(key, field);
  }
  void Inline(auto& part) { Bind(*this, part); }
  void NotWritten(const auto&) {}

  void SkipWrapper() { without_wrapper_ = true; }
  const std::string& problem() const { return problem_; }

 private:
  static constexpr char kOtherType[] = "has a value of another type";

  // Returns the problem of the value; empty: none.
  static std::string Read(const Json& value, std::string& out) {
    if (!value.is_string()) return kOtherType;
    value.get_to(out);
    return {};
  }
  static std::string Read(const Json& value, bool& out) {
    if (!value.is_boolean()) return kOtherType;
    value.get_to(out);
    return {};
  }
  template <std::integral T>
  static std::string Read(const Json& value, T& out) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits) return kOtherType;
    value.get_to(out);
    return {};
  }
  static std::string Read(const Json& value, conf::TimePoint& out) {
    int64_t micros = 0;
    std::string problem = Read(value, micros);
    out = conf::FromUnixMicros(micros);
    return problem;
  }
  template <class T>
  static std::string Read(const Json& value, std::optional<T>& out) {
    return value.is_null() ? std::string() : Read(value, out.emplace());
  }
  template <class T>
  static std::string Read(const Json& value, std::vector<T>& out) {
    if (!value.is_array()) return kOtherType;
    for (const Json& item : value) {
      if (std::string problem = Read(item, out.emplace_back()); !problem.empty()) return problem;
    }
    return {};
  }
  template <class T>
    requires std::is_enum_v<T>
  static std::string Read(const Json& value, T& out) {
    std::string word;
    if (std::string problem = Read(value, word); !problem.empty()) return problem;
    const conf::Words<T> words = WordsOf(out);
    if (const std::optional<T> known = conf::ValueOf<T>(words, word)) {
      out = *known;
      return {};
    }
    std::string all;
    for (const auto& [name, meaning] : words) all += (all.empty() ? "" : ", ") + std::string(name);
    return "is none of " + all;
  }

  const Json* object_;
  bool without_wrapper_ = false;
  std::string problem_;
};

}  // namespace

static conf::Words<RunState> WordsOf(RunState) {
  return kStates;
}

static conf::Words<Witness> WordsOf(Witness) {
  return kWitnesses;
}

template <class O>
static constexpr void Bind(O& o, DeviceGrant& grant) {
  o.Required("node", grant.node);
  o.Required("kind", grant.kind);
  o.Required("devices", grant.devices);
  o.Required("milli", grant.milli);
  o.Required("partition", grant.partition);
  o.Required("partition_start", grant.partition_start);
  o.NotWritten(grant.device_mib);
  o.Required("cpu_milli", grant.cpu_milli);
  o.Required("memory_mib", grant.memory_mib);
}

template <class O>
static constexpr void Bind(O& o, RunRecord& record) {
  o.Required("id", record.id);
  o.Required("owner", record.owner);
  o.Required("tenant", record.tenant);
  o.Inline(record.grant);
  o.Required("command", record.command);
  o.Required("env_names", record.env_names);
  o.Required("directory", record.directory);
  o.Always("user", record.user);
  o.Required("serves", record.serves);
  o.Required("port", record.port);
  o.Required("boot", record.boot);
  o.Required("pid", record.pid);
  o.Required("start_ticks", record.start_ticks);
  o.Always("wrapped", record.wrapped);
  o.Always("cgroup", record.cgroup);
  o.Required("state", record.state);
  o.Required("since", record.since);
  o.Required("kill_at", record.kill_at);
  o.Required("asked", record.asked);
  o.Required("exit_code", record.exit_code);
  o.Required("signal", record.signal);
  o.Required("why", record.why);
  o.Always("started", record.started);
  o.Always("ended", record.ended);
  o.Always("witness", record.witness);
}

static_assert(conf::kListsEveryMember<DeviceGrant> && conf::kListsEveryMember<RunRecord>);

std::string WriteRecord(const RunRecord& record, RecordLayout layout) {
  Json json = {{"version", kVersion}};
  RecordWriter writer(json);
  Bind(writer, const_cast<RunRecord&>(record));  // a writer only looks
  const bool lines = layout == RecordLayout::kLines;
  return json.dump(lines ? 2 : -1, ' ', false, Json::error_handler_t::replace) + (lines ? "\n" : "");
}

absl::StatusOr<RunRecord> ReadRecord(std::string_view text) {
  const Json json = conf::ParseOrderedJson(text);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  RecordReader reader(json);
  int version = 0;
  reader.Required("version", version);
  if (reader.problem().empty() && version != kVersion && version != kWithoutWrapper)
    return absl::DataLossError("it is of version " + std::to_string(version) + ", this program writes " +
                               std::to_string(kVersion));
  RunRecord record;
  if (version == kWithoutWrapper) {
    reader.SkipWrapper();
    record.wrapped = false;
  }
  Bind(reader, record);
  if (!reader.problem().empty()) return absl::DataLossError(conf::Abseil(reader.problem()));
  return record;
}

}  // namespace plugins::launchers
