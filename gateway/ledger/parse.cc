#include "gateway/ledger/parse.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cstring>

#include "conf/text.h"

namespace gateway::ledger {
namespace {

namespace json = simdjson::ondemand;

struct Field {
  std::string Record::* text = nullptr;
  int64_t Record::* number = nullptr;
  bool Record::* flag = nullptr;
};

const absl::flat_hash_map<std::string_view, Field>& Fields() {
  static const auto* fields = new absl::flat_hash_map<std::string_view, Field>{
      {"time_us", {.number = &Record::time_us}},
      {"request", {.text = &Record::request}},
      {"client_request", {.text = &Record::client_request}},
      {"tenant", {.text = &Record::tenant}},
      {"key", {.text = &Record::key}},
      {"model", {.text = &Record::model}},
      {"api", {.text = &Record::api}},
      {"client", {.text = &Record::client}},
      {"stream", {.flag = &Record::stream}},
      {"reason", {.text = &Record::reason}},
      {"source", {.text = &Record::source}},
      {"served_model", {.text = &Record::served_model}},
      {"replica", {.text = &Record::replica}},
      {"limit", {.text = &Record::limit}},
      {"error", {.text = &Record::error}},
      {"status", {.number = &Record::status}},
      {"input", {.number = &Record::input}},
      {"cached", {.number = &Record::cached}},
      {"output", {.number = &Record::output}},
      {"cost_micro_usd", {.number = &Record::cost_micro_usd}},
      {"bytes_in", {.number = &Record::bytes_in}},
      {"bytes_out", {.number = &Record::bytes_out}},
      {"attempts", {.number = &Record::attempts}},
      {"queue_us", {.number = &Record::queue_us}},
      {"ttft_us", {.number = &Record::ttft_us}},
      {"itl_mean_us", {.number = &Record::itl_mean_us}},
      {"itl_max_us", {.number = &Record::itl_max_us}},
      {"total_us", {.number = &Record::total_us}},
      {"overhead_us", {.number = &Record::overhead_us}},
      {"action", {.text = &Record::action}},
      {"actor", {.text = &Record::actor}},
      {"subject", {.text = &Record::subject}},
      {"part", {.text = &Record::part}},
      {"text", {.text = &Record::text}},
      {"cut", {.flag = &Record::cut}},
  };
  return *fields;
}

simdjson::error_code ReadText(json::value value, std::string* into) {
  std::string_view text;
  if (const auto error = value.get_string().get(text)) return error;
  *into = text;
  return simdjson::SUCCESS;
}

simdjson::error_code ReadField(std::string_view key, json::value value, Record* record) {
  if (key == "seq") return value.get_uint64().get(record->seq);
  if (key == "open_seq") return value.get_uint64().get(record->open_seq);
  if (key == "kind") {
    std::string_view name;
    if (const auto error = value.get_string().get(name)) return error;
    const std::optional<Kind> kind = ParseKind(name);
    if (!kind) return simdjson::INCORRECT_TYPE;
    record->kind = *kind;
    return simdjson::SUCCESS;
  }
  if (key == "detail") {
    json::object detail;
    if (const auto error = value.get_object().get(detail)) return error;
    std::string_view raw;
    if (const auto error = detail.raw_json().get(raw)) return error;
    record->detail = raw;
    return simdjson::SUCCESS;
  }
  const auto found = Fields().find(key);
  if (found == Fields().end()) return simdjson::SUCCESS;
  const Field& field = found->second;
  if (field.text != nullptr) return ReadText(value, &(record->*field.text));
  if (field.number != nullptr) return value.get_int64().get(record->*field.number);
  return value.get_bool().get(record->*field.flag);
}

simdjson::error_code ReadLine(json::parser& parser, simdjson::padded_string_view line, Record* record) {
  json::document document;
  if (const auto error = parser.iterate(line).get(document)) return error;
  json::object object;
  if (const auto error = document.get_object().get(object)) return error;
  for (auto entry : object) {
    std::string_view key;
    if (const auto error = entry.unescaped_key().get(key)) return error;
    json::value value;
    if (const auto error = entry.value().get(value)) return error;
    if (const auto error = ReadField(key, value, record)) return error;
  }
  return simdjson::SUCCESS;
}

}  // namespace

struct RecordParser::Buffers {
  json::parser parser;
  std::string line;
};

RecordParser::RecordParser() : buffers_(std::make_unique<Buffers>()) {}
RecordParser::~RecordParser() = default;

absl::Status RecordParser::Parse(std::string_view line, Record* record) {
  std::string& padded = buffers_->line;
  padded.assign(line);
  padded.append(simdjson::SIMDJSON_PADDING, ' ');
  *record = Record{};
  const auto error = ReadLine(
      buffers_->parser, simdjson::padded_string_view(padded.data(), line.size(), padded.size()), record);
  if (error == simdjson::SUCCESS && record->seq != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      conf::Abseil(fmt::format("not a ledger record: {}", simdjson::error_message(error))));
}

}  // namespace gateway::ledger
