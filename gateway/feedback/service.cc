#include "gateway/feedback/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "conf/time.h"
#include "gateway/ledger/request_id.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/thread.h"

namespace gateway::feedback {
namespace {

using Shown = nlohmann::ordered_json;

constexpr size_t kMostAtOnce = 256;
constexpr size_t kMostShown = 1000;
constexpr std::string_view kOtherModels = "other";

api::ApiError NoSuchRequest(std::string_view request) {
  return api::Make(
      api::Code::kNotFound,
      fmt::format(
          "there is no request {} of this tenant: request_id is the header x-request-id of its answer",
          request.substr(0, 64)),
      "request_id");
}

api::ApiError NotNow(std::string_view why) {
  return api::Make(api::Code::kLedgerUnavailable, fmt::format("{}; try again", why));
}

Shown ShowOne(const ledger::Feedback& of, int64_t time_us) {
  Shown shown{{"object", "feedback"}, {"request_id", of.request}, {"name", of.name}};
  std::visit([&shown](const auto& value) { shown["value"] = value; }, of.value);
  shown["model"] = of.model;
  shown["version"] = of.version.empty() ? Shown() : Shown(of.version);
  shown["created_at"] = time_us / 1'000'000;
  return shown;
}

}  // namespace

Service::Service(std::string ledger_dir, ledger::Ledger& ledger, ledger::ContentKeys* keys)
    : dir_(std::move(ledger_dir)), ledger_(ledger), keys_(keys), thread_([this] { Run(); }) {}

Service::~Service() {
  Stop();
}

void Service::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Service::Take(Call call, Done done) {
  Reply refused;
  {
    const std::lock_guard lock(mutex_);
    size_t& of_tenant = of_tenant_[call.principal->tenant];
    if (stopping_) {
      refused.error =
          api::Make(api::Code::kDraining, "this gateway is shutting down; send the request again");
    } else if (of_tenant >= kMaxOfTenant) {
      refused.error = api::Make(
          api::Code::kConcurrencyLimit,
          fmt::format("{} calls of the tenant's feedback wait already; try again in a moment", kMaxOfTenant));
    } else if (waiting_.size() >= kMaxWaiting) {
      refused.error =
          api::Make(api::Code::kOverloaded, "too many calls of feedback wait already; try again in a moment");
    } else {
      ++of_tenant;
      waiting_.push_back({std::move(call), std::move(done)});
      wake_.notify_one();
      return;
    }
    if (of_tenant == 0) of_tenant_.erase(call.principal->tenant);
  }
  done(std::move(refused));
}

void Service::Run() {
  NameThread("feedback");
  while (true) {
    std::vector<Waiting> calls;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      stopping = stopping_;
      while (!waiting_.empty() && (stopping || calls.size() < kMostAtOnce)) {
        calls.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    if (stopping) {
      for (Waiting& waiting : calls) {
        waiting.reply.error =
            api::Make(api::Code::kDraining, "this gateway is shutting down; send the request again");
      }
    } else {
      Handle(calls);
    }
    {
      const std::lock_guard lock(mutex_);
      for (const Waiting& waiting : calls) {
        const auto found = of_tenant_.find(waiting.call.principal->tenant);
        if (found != of_tenant_.end() && --found->second == 0) of_tenant_.erase(found);
      }
    }
    for (Waiting& waiting : calls) {
      if (waiting.missing && elsewhere_ && !waiting.call.passed) {
        elsewhere_(std::move(waiting.call), std::move(waiting.reply), std::move(waiting.done));
      } else {
        waiting.done(std::move(waiting.reply));
      }
    }
    if (stopping) return;
  }
}

void Service::Handle(std::vector<Waiting>& calls) {
  absl::Status found = FindAll(calls);
  std::vector<ledger::Event> events;
  for (const Waiting& waiting : calls) {
    if (!waiting.settled && waiting.record) events.push_back(ledger::EventOf(*waiting.record));
  }
  if (!found.ok()) {
    log::Error("feedback cannot be taken: the ledger's index does not answer",
               {{"why", conf::Std(found.message())}});
    index_.reset();  // opened again by the next call
  }
  const absl::Status recorded = found.ok() ? ledger_.AppendAll(std::move(events)) : found;
  const int64_t now_us = conf::ToUnixMicros(net::Now());
  for (Waiting& waiting : calls) {
    if (waiting.settled) continue;
    if (!recorded.ok()) {
      waiting.reply.error = NotNow("the ledger cannot record this feedback now");
      continue;
    }
    if (!waiting.record) continue;
    Count(*waiting.record);
    Shown shown = ShowOne(*waiting.record, now_us);
    if (!waiting.call.given->comment.empty()) shown["comment"] = waiting.call.given->comment;
    if (!waiting.call.given->correction.empty()) shown["correction"] = waiting.call.given->correction;
    waiting.reply.json = conf::DumpJson(shown);
  }
}

absl::Status Service::OpenIndex() {
  if (index_) return index_->CatchUp();
  auto opened = ledger::OpenIndexUpToDate(dir_);
  if (!opened.ok()) return opened.status();
  index_ = *std::move(opened);
  return absl::OkStatus();
}

bool Service::MayBeNew(std::string_view request) const {
  return !tag_ || ledger::RequestTag(request) == tag_;
}

absl::Status Service::FindAll(std::vector<Waiting>& calls) {
  if (absl::Status opened = OpenIndex(); !opened.ok()) return opened;
  bool flushed = false;
  for (Waiting& waiting : calls) {
    const std::string& request = waiting.call.given ? waiting.call.given->request : waiting.call.request;
    auto found = index_->places().Find(request);
    if (found.ok() && !*found && MayBeNew(request) && !std::exchange(flushed, true)) {
      // Its open record may not be in a segment yet.
      if (absl::Status reached = ledger_.Flush(); !reached.ok()) return reached;
      if (absl::Status caught_up = index_->CatchUp(); !caught_up.ok()) return caught_up;
      found = index_->places().Find(request);
    }
    if (!found.ok()) return found.status();
    if (!*found || (*found)->tenant != waiting.call.principal->tenant) {
      waiting.reply.error = NoSuchRequest(request);
      waiting.settled = true;
      waiting.missing = !*found;
      continue;
    }
    const absl::Status answered = waiting.call.given ? Prepare(waiting, **found) : Show(waiting);
    if (!answered.ok()) return answered;
  }
  return absl::OkStatus();
}

absl::StatusOr<ledger::ContentKeyRef> Service::KeyOf(const Principal& principal) {
  if (keys_ == nullptr) return absl::FailedPreconditionError("this gateway has no content keys");
  if (ledger::ContentKeyRef key = keys_->For(principal.tenant)) return key;
  if (absl::Status made = keys_->Ensure({principal.tenant}); !made.ok()) return made;
  return keys_->For(principal.tenant);
}

absl::Status Service::Prepare(Waiting& waiting, const ledger::FoundRequest& found) {
  const GivenFeedback& given = *waiting.call.given;
  const Principal& principal = *waiting.call.principal;
  const auto earlier = index_->feedback().OfRequest(given.request, kMostShown);
  if (!earlier.ok()) return earlier.status();
  const auto names = std::ranges::count_if(*earlier, [&](const ledger::KeptFeedback& one) {
    return one.feedback.key == principal.key && one.feedback.name != given.name;
  });
  if (static_cast<size_t>(names) >= kMaxNames) {
    waiting.settled = true;
    waiting.reply.error = api::Make(
        api::Code::kInvalidValue,
        fmt::format("name must be one of the {} that this key has given for the request already", kMaxNames),
        "name");
    return absl::OkStatus();
  }
  ledger::Feedback& record = waiting.record.emplace();
  record.name = given.name;
  record.value = given.value;
  record.request = given.request;
  record.tenant = principal.tenant;
  record.key = principal.key;
  record.model = found.model;
  record.version = found.served.version;
  record.replica = found.served.replica;
  record.settled = found.settled;
  record.known_to = index_->applied_seq();
  if (given.comment.empty() && given.correction.empty()) return absl::OkStatus();
  const absl::StatusOr<ledger::ContentKeyRef> key = KeyOf(principal);
  if (!key.ok() || *key == nullptr) {
    log::Error("a comment on an answer cannot be sealed", {{"why", conf::Std(key.status().message())}});
    waiting.record.reset();
    waiting.settled = true;
    waiting.reply.error = api::Make(api::Code::kStoreUnavailable,
                                    "the gateway cannot seal the comment or correction now; try again");
    return absl::OkStatus();
  }
  record.content_key = (*key)->id();
  if (!given.comment.empty()) record.comment = (*key)->Seal(given.comment);
  if (!given.correction.empty()) record.correction = (*key)->Seal(given.correction);
  return absl::OkStatus();
}

absl::Status Service::Show(Waiting& waiting) {
  const auto kept = index_->feedback().OfRequest(waiting.call.request, kMostShown);
  if (!kept.ok()) return kept.status();
  Shown data = Shown::array();
  for (const ledger::KeptFeedback& one : *kept) {
    if (one.feedback.key != waiting.call.principal->key) continue;
    Shown shown = ShowOne(one.feedback, one.time_us);
    const ledger::ContentKeyRef key = keys_ ? keys_->Find(one.feedback.content_key) : nullptr;
    for (const auto& [name, sealed] :
         {std::pair("comment", &one.feedback.comment), std::pair("correction", &one.feedback.correction)}) {
      if (sealed->empty()) continue;
      const std::optional<std::string> text = key ? key->Open(*sealed) : std::nullopt;
      shown[name] = text ? Shown(*text) : Shown();  // null: it was erased
    }
    data.push_back(std::move(shown));
  }
  waiting.reply.json =
      conf::DumpJson(Shown{{"object", "list"}, {"data", std::move(data)}, {"has_more", false}});
  waiting.settled = true;
  return absl::OkStatus();
}

void Service::Count(const ledger::Feedback& feedback) {
  size_t kind = static_cast<size_t>(ledger::TypeOf(feedback.value)) + 1;
  if (const auto* const flag = std::get_if<bool>(&feedback.value)) kind = *flag ? 0 : 1;
  const std::lock_guard lock(mutex_);
  const bool known = counts_.contains(feedback.model) || counts_.size() < kMaxModels;
  ++counts_[known ? feedback.model : std::string(kOtherModels)][kind];
}

std::map<std::string, Service::Counts> Service::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string_view Service::CountName(size_t i) {
  constexpr std::array<std::string_view, 4> kNames = {"true", "false", "number", "text"};
  return kNames[i];
}

}  // namespace gateway::feedback
