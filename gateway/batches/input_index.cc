#include "gateway/batches/input_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "conf/byte_order_mark.h"
#include "conf/text.h"
#include "gateway/net/buffer.h"
#include "gateway/net/files.h"

namespace gateway::batches {
namespace {

namespace json = simdjson::ondemand;

constexpr size_t kReadBytes = 1u << 20;
constexpr size_t kMaxModels = 1000;
constexpr size_t kMaxMessage = 400;

BatchProblem Wrong(std::string_view code, std::string message, std::string_view param = {}) {
  return {.code = std::string(code), .message = std::move(message), .param = std::string(param), .line = {}};
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::variant<InputLine, BatchProblem> ParseInputLine(std::string_view text) {
  const simdjson::padded_string padded(text);
  json::parser parser;
  json::document document;
  json::object members;
  const BatchProblem not_json = Wrong("invalid_json_line", "the line must be one JSON object");
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_object().get(members) != simdjson::SUCCESS)
    return not_json;
  InputLine line;
  std::string method;
  absl::flat_hash_set<std::string> seen;
  for (auto member : members) {
    std::string_view name;
    json::value value;
    if (member.unescaped_key().get(name) != simdjson::SUCCESS ||
        member.value().get(value) != simdjson::SUCCESS)
      return not_json;
    const std::string known(name);
    std::string* const into = known == "custom_id" ? &line.custom_id
                              : known == "method"  ? &method
                              : known == "url"     ? &line.url
                                                   : nullptr;
    if (into == nullptr && known != "body") continue;
    if (!seen.insert(known).second) return Wrong("duplicate_key", known + " is given twice", known);
    if (into != nullptr) {
      std::string_view got;
      if (value.get_string().get(got) != simdjson::SUCCESS)
        return Wrong("invalid_type", known + " must be a string", known);
      *into = got;
      continue;
    }
    json::object body;
    std::string_view raw;
    if (value.get_object().get(body) != simdjson::SUCCESS)
      return Wrong("invalid_type", "body must be an object", "body");
    if (body.raw_json().get(raw) != simdjson::SUCCESS) return not_json;
    line.body = raw;
  }
  const char* rest = nullptr;
  if (document.current_location().get(rest) == simdjson::SUCCESS) return not_json;  // more follows
  for (const std::string_view needed : {"custom_id", "method", "url", "body"}) {
    if (!seen.contains(conf::Abseil(needed)))
      return Wrong("missing_required_parameter", fmt::format("{} is missing", needed), needed);
  }
  if (line.custom_id.empty() || line.custom_id.size() > kMaxCustomId) {
    return Wrong("invalid_value", fmt::format("custom_id must have 1 to {} bytes", kMaxCustomId),
                 "custom_id");
  }
  if (method != "POST") return Wrong("invalid_method", "method must be POST", "method");
  return line;
}

void InputIndexer::Problem(std::string code, std::string message, std::string param) {
  ++index_.problem_count;
  if (index_.problems.size() >= kMaxProblems) return;
  if (message.size() > kMaxMessage) message = message.substr(0, kMaxMessage) + "…";
  if (param.size() > kMaxMessage) param.resize(kMaxMessage);
  index_.problems.push_back(
      {.code = std::move(code), .message = std::move(message), .param = std::move(param), .line = number_});
}

void InputIndexer::Add(std::string_view text, uint64_t offset, bool too_long) {
  if (++number_ == 1 && text.starts_with(conf::kByteOrderMark)) {
    text.remove_prefix(conf::kByteOrderMark.size());
    offset += conf::kByteOrderMark.size();
  }
  if (too_long)
    return Problem("line_too_long", fmt::format("the line is longer than {} bytes", kMaxLineBytes));
  if (IsBlank(text)) return;
  if (++index_.total > options_.max_lines) {
    if (index_.total == options_.max_lines + 1) {
      Problem("too_many_lines",
              fmt::format("a batch may have {} lines; the rest was not checked", options_.max_lines));
    }
    return;
  }
  std::variant<InputLine, BatchProblem> parsed = ParseInputLine(text);
  if (auto* const wrong = std::get_if<BatchProblem>(&parsed))
    return Problem(std::move(wrong->code), std::move(wrong->message), std::move(wrong->param));
  const auto& line = std::get<InputLine>(parsed);
  if (!custom_ids_.insert(line.custom_id).second) {
    return Problem("duplicate_custom_id",
                   fmt::format("custom_id \"{}\" is used in an earlier line, too", line.custom_id),
                   "custom_id");
  }
  if (line.url != options_.url) {
    return Problem("mismatched_url", fmt::format("url must be {}, the endpoint of the batch", options_.url),
                   "url");
  }
  Take(line, {.offset = offset, .bytes = static_cast<uint32_t>(text.size()), .number = number_});
}

void InputIndexer::Take(const InputLine& line, LineRef ref) {
  // The scanner reads beyond the end.
  std::string padded = line.body;
  padded.append(net::Buffer::kPadding, '\0');
  const std::string_view body = std::string_view(padded).substr(0, line.body.size());
  router::BodyFacts facts;
  if (const auto error = scanner_.Scan(body, options_.api, facts)) {
    return Problem(std::string(router::CodeName(error->code)), error->message,
                   fmt::format("body.{}", error->path.empty() ? std::string(error->param) : error->path));
  }
  if (facts.stream)
    return Problem("unsupported_parameter", "lines of a batch cannot stream; leave stream out",
                   "body.stream");
  const std::string model(facts.model.view());
  if (options_.why_not) {
    auto known = why_not_.find(model);
    if (known == why_not_.end()) {
      if (why_not_.size() >= kMaxModels) why_not_.clear();
      known = why_not_.emplace(model, options_.why_not(model)).first;
    }
    if (known->second) return Problem("model_not_found", *known->second, "body.model");
  }
  if (options_.done != nullptr && options_.done->contains(line.custom_id)) return;
  const auto [place, is_new] = models_.try_emplace(model, index_.models.size());
  if (is_new) index_.models.push_back({.model = model, .lines = {}});
  index_.models[place->second].lines.push_back(ref);
}

InputIndex InputIndexer::Finish() {
  if (index_.total == 0 && index_.problem_count == 0) {
    ++index_.problem_count;
    index_.problems.push_back(Wrong("empty_file", "the file has no lines"));
  }
  if (index_.problem_count > index_.problems.size()) {
    index_.problems.push_back(
        Wrong("more_problems",
              fmt::format("{} more problems are not shown", index_.problem_count - index_.problems.size())));
  }
  return std::move(index_);
}

absl::StatusOr<InputIndex> IndexInput(KeptFile& input, IndexOptions options) {
  InputIndexer indexer(std::move(options));
  std::string buffer(kReadBytes, '\0');
  std::string line;
  uint64_t begin = 0;  // of the line
  bool too_long = false;
  uint64_t offset = 0;
  while (true) {
    const absl::StatusOr<size_t> read = input.ReadAt(offset, buffer);
    if (!read.ok()) return read.status();
    std::string_view rest = std::string_view(buffer).substr(0, *read);
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      too_long = too_long || line.size() + part.size() > kMaxLineBytes;
      if (too_long) {
        line.clear();
      } else {
        line.append(part);
      }
      if (end == std::string_view::npos) break;
      indexer.Add(line, begin, too_long);
      rest.remove_prefix(end + 1);
      begin = offset + *read - rest.size();
      line.clear();
      too_long = false;
    }
    offset += *read;
    if (*read < buffer.size()) break;
  }
  if (!line.empty() || too_long) indexer.Add(line, begin, too_long);
  return indexer.Finish();
}

}  // namespace gateway::batches
