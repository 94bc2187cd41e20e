#include "gateway/ledger/parse.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <charconv>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
      {"open_time_us", {.number = &Record::open_time_us}},
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
      {"prefill", {.text = &Record::prefill}},
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
      {"job", {.text = &Record::job}},
      {"device", {.text = &Record::device}},
      {"until_us", {.number = &Record::until_us}},
      {"device_us", {.number = &Record::device_us}},
      {"held_us", {.number = &Record::held_us}},
      {"weight", {.number = &Record::weight}},
      {"energy_mj", {.number = &Record::energy_mj}},
      {"energy_micro_usd", {.number = &Record::energy_micro_usd}},
      {"co2_mg", {.number = &Record::co2_mg}},
      {"action", {.text = &Record::action}},
      {"actor", {.text = &Record::actor}},
      {"subject", {.text = &Record::subject}},
      {"part", {.text = &Record::part}},
      {"text", {.text = &Record::text}},
      {"content_key", {.text = &Record::content_key}},
      {"ciphertext", {.text = &Record::ciphertext}},
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

size_t Size(const char* begin, const char* end) {
  return static_cast<size_t>(end - begin);
}

// The first quote or escape in [at, end), or `end`. Texts are short: a call of memchr takes longer than the search.
const char* FindQuote(const char* at, const char* end) {
#ifdef __SSE2__
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i found =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    if (const int mask = _mm_movemask_epi8(found); mask != 0)
      return at + std::countr_zero(static_cast<unsigned>(mask));
  }
#endif
  while (at != end && *at != '"' && *at != '\\') ++at;
  return at;
}

std::string_view* FactText(std::string_view key, CloseFacts* facts) {
  if (key == "tenant") return &facts->tenant;
  if (key == "key") return &facts->key;
  if (key == "model") return &facts->model;
  if (key == "replica") return &facts->replica;
  if (key == "api") return &facts->api;
  if (key == "reason") return &facts->reason;
  return nullptr;
}

int64_t* FactNumber(std::string_view key, CloseFacts* facts) {
  if (key == "input") return &facts->input;
  if (key == "cached") return &facts->cached;
  if (key == "output") return &facts->output;
  if (key == "cost_micro_usd") return &facts->cost_micro_usd;
  if (key == "open_time_us") return &facts->open_time_us;
  return nullptr;
}

}  // namespace

CloseFacts FactsOf(const Record& record) {
  return {record.tenant,      record.key,   record.model,  record.replica, record.api,
          record.reason,      record.input, record.cached, record.output,  record.cost_micro_usd,
          record.open_time_us};
}

bool ReadCloseFacts(std::string_view body, CloseFacts* facts) {
  *facts = {};
  const char* at = body.data();
  const char* const end = at + body.size();
  // A member has the form `{"key":value` or `,"key":value`; a value is a text or a number.
  while (at != end) {
    if (end - at < 2 || at[1] != '"') return false;
    const char* const key_begin = at + 2;
    const char* const key_end = FindQuote(key_begin, end);
    if (end - key_end < 3 || *key_end != '"') return false;
    const std::string_view key(key_begin, Size(key_begin, key_end));
    at = key_end + 2;
    if (*at == '"') {
      const char* const quote = FindQuote(at + 1, end);
      if (quote == end || *quote != '"') return false;
      if (std::string_view* into = FactText(key, facts)) *into = {at + 1, Size(at + 1, quote)};
      at = quote + 1;
    } else {
      const char* const number_end = std::find(at, end, ',');
      if (int64_t* into = FactNumber(key, facts)) {
        const auto [read_to, error] = std::from_chars(at, number_end, *into);
        if (read_to != number_end || error != std::errc()) return false;
      }
      at = number_end;
    }
  }
  return true;
}

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
