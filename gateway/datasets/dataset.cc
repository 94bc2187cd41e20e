#include "gateway/datasets/dataset.h"

#include <absl/strings/escaping.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/datasets/example.h"
#include "gateway/ledger/chain.h"
#include "gateway/people/permissions.h"

namespace gateway::datasets {
namespace {

constexpr size_t kMostFeedback = 1000;  // of a request
constexpr size_t kSpareOrder = 4096;

double SecondsOf(int64_t us) {
  return us < 0 ? -1 : static_cast<double>(us) * 1e-6;
}

}  // namespace

DatasetCounts& DatasetCounts::operator+=(const DatasetCounts& other) {
  for (uint64_t DatasetCounts::* count :
       {&DatasetCounts::requests, &DatasetCounts::examples, &DatasetCounts::corrected,
        &DatasetCounts::not_kept, &DatasetCounts::erased, &DatasetCounts::cut, &DatasetCounts::unreadable,
        &DatasetCounts::other_api, &DatasetCounts::not_redacted}) {
    this->*count += other.*count;
  }
  return *this;
}

DatasetSteps::DatasetSteps(std::string ledger_dir, ledger::Index& index, const ledger::ContentKeys& keys,
                           const Expression& where, const plugins::Redaction& redaction, DatasetQuery query)
    : dir_(std::move(ledger_dir)),
      index_(index),
      keys_(keys),
      where_(where),
      redaction_(redaction),
      query_(std::move(query)),
      tail_(dir_, std::max<uint64_t>(query_.from_seq, 1) - 1),
      last_seq_(std::max<uint64_t>(query_.from_seq, 1) - 1) {}

absl::StatusOr<bool> DatasetSteps::Step(uint64_t max_seen, const std::function<bool(std::string_view)>& out) {
  for (uint64_t n = 0; n < max_seen; ++n) {
    const absl::StatusOr<const ledger::Tail::Entry*> next = tail_.Peek();
    if (!next.ok()) return next.status();
    // What the index does not know yet may lack its feedback.
    if (*next == nullptr || (*next)->parts.seq > index_.applied_seq()) return false;
    last_seq_ = (*next)->parts.seq;
    bool more = true;
    if ((*next)->parts.kind == Name(ledger::Kind::kContent)) {
      Hold(**next);
    } else if ((*next)->parts.kind == Name(ledger::Kind::kClose)) {
      const absl::StatusOr<std::optional<std::string>> example = Take(**next);
      if (!example.ok()) return example.status();
      if (*example) more = out(**example);
    }
    tail_.Pop();
    if (!more) return false;
  }
  return true;
}

void DatasetSteps::Hold(const ledger::Tail::Entry& entry) {
  const std::string_view body = entry.parts.body;
  const std::optional<uint64_t> open_seq = ledger::FindUint(body, "open_seq");
  const std::string_view part = ledger::FindText(body, "part").value_or("");
  const bool prompt = part == Name(ledger::ContentPart::kPrompt);
  if (!open_seq || (!prompt && part != Name(ledger::ContentPart::kAnswer))) return;
  if (!IsWithin(ledger::FindText(body, "tenant").value_or(""), query_.tenant)) return;
  const auto [place, added] = held_.try_emplace(*open_seq);
  if (added) order_.push_back(*open_seq);
  (prompt ? place->second.prompt : place->second.answer) = entry.text;
  held_bytes_ += entry.text.size();
  if (order_.size() > 2 * held_.size() + kSpareOrder)
    std::erase_if(order_, [this](uint64_t seq) { return !held_.contains(seq); });
  while (held_bytes_ > kHeldBytes && !order_.empty()) {
    Forget(order_.front());
    order_.pop_front();
  }
}

void DatasetSteps::Forget(uint64_t open_seq) {
  const auto found = held_.find(open_seq);
  if (found == held_.end()) return;
  held_bytes_ -= found->second.prompt.size() + found->second.answer.size();
  held_.erase(found);
}

absl::StatusOr<DatasetSteps::Content> DatasetSteps::ContentOf(const ledger::Record& close) {
  Content content;
  if (const auto found = held_.find(close.open_seq); found != held_.end()) content = found->second;
  if (!content.prompt.empty() && !content.answer.empty()) return content;
  const auto keep = [&content](const ledger::LineParts& parts, std::string_view line) {
    if (parts.kind != Name(ledger::Kind::kContent)) return true;
    const std::string_view part = ledger::FindText(parts.body, "part").value_or("");
    if (part == Name(ledger::ContentPart::kPrompt)) content.prompt = line;
    if (part == Name(ledger::ContentPart::kAnswer)) content.answer = line;
    return content.prompt.empty() || content.answer.empty();
  };
  absl::Status read = index_.places().ForEachOf(close.request, close.open_seq, close.seq, keep);
  if (!read.ok()) return read;
  return content;
}

std::optional<std::string> DatasetSteps::Open(const std::string& line) {
  ledger::Record record;
  if (line.empty()) {
    ++counts_.not_kept;
    return std::nullopt;
  }
  if (!parser_.Parse(line, &record).ok()) {
    ++counts_.unreadable;
    return std::nullopt;
  }
  if (record.cut) {
    ++counts_.cut;
    return std::nullopt;
  }
  if (record.content_key.empty()) return record.text;
  const ledger::ContentKeyRef key = keys_.Find(record.content_key);
  if (key == nullptr) {
    ++(keys_.WhenErased(record.content_key) ? counts_.erased : counts_.unreadable);
    return std::nullopt;
  }
  std::string sealed;
  std::optional<std::string> text;
  if (absl::Base64Unescape(record.ciphertext, &sealed)) text = key->Open(sealed);
  if (!text) ++counts_.unreadable;
  return text;
}

// The latest that can be read.
std::string DatasetSteps::CorrectionOf(const std::vector<ledger::KeptFeedback>& feedback) const {
  uint64_t latest = 0;
  std::string correction;
  for (const ledger::KeptFeedback& one : feedback) {
    if (one.feedback.correction.empty() || one.seq <= latest) continue;
    const ledger::ContentKeyRef key = keys_.Find(one.feedback.content_key);
    std::optional<std::string> text = key ? key->Open(one.feedback.correction) : std::nullopt;
    if (!text) continue;
    latest = one.seq;
    correction = *std::move(text);
  }
  return correction;
}

absl::StatusOr<std::optional<std::string>> DatasetSteps::Take(const ledger::Tail::Entry& entry) {
  const uint64_t open_seq = ledger::FindUint(entry.parts.body, "open_seq").value_or(0);
  const bool in_time = entry.parts.time_us >= query_.since_us && entry.parts.time_us < query_.until_us;
  const bool ours = open_seq != 0 && in_time &&
                    IsWithin(ledger::FindText(entry.parts.body, "tenant").value_or(""), query_.tenant) &&
                    parser_.Parse(entry.text, &record_).ok();
  if (!ours) {
    Forget(open_seq);
    return std::nullopt;
  }
  absl::Status failed;
  std::optional<std::vector<ledger::KeptFeedback>> feedback;
  const auto ask = [&]() -> std::span<const ledger::KeptFeedback> {
    if (!feedback) {
      auto kept = index_.feedback().OfRequest(record_.request, kMostFeedback);
      if (!kept.ok()) failed = kept.status();
      feedback = kept.ok() ? *std::move(kept) : std::vector<ledger::KeptFeedback>();
    }
    return *feedback;
  };
  const Subject subject{.tenant = record_.tenant,
                        .key = record_.key,
                        .model = record_.model,
                        .version = record_.served_model,
                        .api = record_.api,
                        .reason = record_.reason,
                        .replica = record_.replica,
                        .input_tokens = record_.input,
                        .cached_tokens = record_.cached,
                        .output_tokens = record_.output,
                        .cost_usd = static_cast<double>(record_.cost_micro_usd) * 1e-6,
                        .latency_s = SecondsOf(record_.total_us),
                        .ttft_s = SecondsOf(record_.ttft_us),
                        .status = record_.status,
                        .feedback = ask};
  const bool wanted = where_.Matches(subject);
  if (!failed.ok()) return failed;
  if (!wanted) {
    Forget(open_seq);
    return std::nullopt;
  }
  ++counts_.requests;
  if (!IsExported(record_.api)) {
    ++counts_.other_api;
    Forget(open_seq);
    return std::nullopt;
  }
  const absl::StatusOr<Content> content = ContentOf(record_);
  Forget(open_seq);
  if (!content.ok()) return content.status();
  std::string correction;
  if (query_.use_corrections) {
    ask();
    if (!failed.ok()) return failed;
    correction = CorrectionOf(*feedback);
  }
  const std::string api = record_.api;
  const std::optional<std::string> prompt = Open(content->prompt);
  if (!prompt) return std::nullopt;
  std::optional<std::string> answer =
      correction.empty() ? Open(content->answer) : std::optional<std::string>("");
  if (!answer) return std::nullopt;
  std::optional<nlohmann::ordered_json> example = MakeExample(api, *prompt, *answer, correction);
  if (!example) {
    ++counts_.unreadable;
    return std::nullopt;
  }
  plugins::Redaction::Counts redacted;
  if (!redaction_.Apply(*example, redacted)) {
    ++counts_.not_redacted;
    return std::nullopt;
  }
  for (const auto& [rule, count] : redacted) redacted_[rule] += count;
  ++counts_.examples;
  if (!correction.empty()) ++counts_.corrected;
  return example->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gateway::datasets
