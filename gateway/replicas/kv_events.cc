#include "gateway/replicas/kv_events.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "conf/words.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/replicas/ask_replica.h"
#include "router/prefix/block_hash.h"

namespace gateway {
namespace {

using plugins::kv_events::Batch;
using plugins::kv_events::Event;
using plugins::kv_events::Sequence;
using plugins::kv_events::Subscriber;
using router::prefix::MemberId;

constexpr uint32_t kMaxTokenizing = 8;
constexpr conf::Duration kTokenizeTimeout = std::chrono::seconds(2);
constexpr conf::Duration kRestAfterFailure = std::chrono::seconds(10);
constexpr conf::Duration kRestWithoutTokenizer = std::chrono::minutes(5);
constexpr size_t kMaxTokenizeAnswer = size_t{16} << 20;
constexpr size_t kMaxTokens = size_t{1} << 20;
constexpr size_t kMaxEarly = 16;  // prompts of a replica before its first event
constexpr size_t kMaxEarlyText = size_t{128} << 10;

constexpr conf::Word<Sequence::State> kSequenceStates[] = {{"connecting", Sequence::State::kDown},
                                                           {"catching_up", Sequence::State::kReplaying},
                                                           {"exact", Sequence::State::kLive}};

std::string_view Name(Sequence::State state) {
  return conf::WordOf(kSequenceStates, state);
}

double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The ids of a JSON list of numbers, and the offset of the end of each.
struct ListedIds {
  std::vector<uint64_t> ids;
  std::vector<uint64_t> ends;
};

std::optional<ListedIds> ReadIds(std::string_view list, uint64_t at) {
  ListedIds out;
  bool in_number = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c >= '0' && c <= '9') {
      if (!in_number) out.ids.push_back(0);
      out.ids.back() = out.ids.back() * 10 + static_cast<uint64_t>(c - '0');
      in_number = true;
      continue;
    }
    if (in_number) out.ends.push_back(at + i);
    in_number = false;
    const bool outer = (i == 0 && c == '[') || (i + 1 == list.size() && c == ']');
    if (!outer && c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t') return std::nullopt;
  }
  if (in_number || out.ids.size() > kMaxTokens) return std::nullopt;
  return out;
}

// The ids in a tokenizer's answer, {"tokens": […]}.
std::optional<std::vector<uint64_t>> TokensOf(const std::string& answer) {
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.parse(answer)["tokens"].get(list) != simdjson::SUCCESS) return std::nullopt;
  std::vector<uint64_t> tokens;
  for (const simdjson::dom::element item : list) {
    uint64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || tokens.size() == kMaxTokens) return std::nullopt;
    tokens.push_back(id);
  }
  return tokens;
}

}  // namespace

constexpr conf::Word<Tokenized> kTokenizedResults[] = {
    {"learnt", Tokenized::kLearnt}, {"failed", Tokenized::kFailed}, {"skipped", Tokenized::kSkipped}};

std::string_view Name(Tokenized how) {
  return conf::WordOf(kTokenizedResults, how);
}

// One replica, while it and its source of events are configured. Keeps the replica's state alive, and with it
// its place in the index.
class KvEvents::Followed final : public Subscriber::Listener {
 public:
  Followed(KvEvents& owner, std::shared_ptr<router::ReplicaState> replica, uint64_t salt)
      : replica_state(std::move(replica)), model_salt(salt), owner_(owner) {
    owner_.residency_.Join(member(), salt);
  }
  ~Followed() override {
    subscriber.reset();
    owner_.residency_.Leave(member());
  }

  MemberId member() const { return *replica_state->member; }

  void OnBatch(const Batch& batch) override {
    const conf::TimePoint now = net::Now();
    const double lag = std::clamp(UnixNow() - batch.at, 0.0, 86'400.0);
    figures.lag = std::chrono::duration_cast<conf::Duration>(std::chrono::duration<double>(lag));
    for (const Event& event : batch.events) {
      if (event.kind == Event::Kind::kCleared) {
        ++figures.cleared;
        owner_.residency_.Clear(member());
      } else if (event.kind == Event::Kind::kRemoved) {
        figures.removed += event.hashes.size();
        if (event.plain) owner_.residency_.Removed(member(), event.hashes);
      } else {
        figures.stored += event.hashes.size();
        if (event.plain)
          owner_.residency_.Stored(member(), {event.hashes, event.parent, event.tokens, event.block_size},
                                   now);
      }
    }
    if (!early_.empty() && owner_.residency_.BlocksOf(member()) > 0) {
      for (ComputedPrompt& prompt : std::exchange(early_, {})) owner_.computed_.Add(std::move(prompt));
    }
  }

  // The first event tells the size of blocks. Until it comes, the prompt is kept. False: too many are kept
  // already.
  bool KeepEarly(ComputedPrompt& prompt) {
    if (early_.size() == kMaxEarly || prompt.text.size() > kMaxEarlyText) return false;
    early_.push_back(std::move(prompt));
    return true;
  }

  void OnClear() override { owner_.residency_.Clear(member()); }

  void OnMalformed(const std::string& why) override {
    owner_.residency_.Distrust(member());
    if (std::has_single_bit(++malformed_))
      log::Warn("KV events cannot be read",
                {{"replica", replica_state->identity}, {"why", why}, {"times", malformed_}});
  }

  void OnState(Sequence::State state) override {
    if (state == Sequence::State::kReplaying) return;
    const bool heard = state == Sequence::State::kLive;
    if (heard == owner_.index_.reporting(member())) return;
    owner_.index_.SetReporting(member(), heard);
    log::Info(heard ? "KV cache followed by its engine's events" : "KV events lost; the cache is predicted",
              {{"replica", replica_state->identity}});
  }

  const std::shared_ptr<router::ReplicaState> replica_state;
  const uint64_t model_salt;
  std::unique_ptr<Subscriber> subscriber;
  KvEventsStatus::Followed figures;  // counted here
  conf::TimePoint tokenizer_rests_until{};

 private:
  KvEvents& owner_;
  std::vector<ComputedPrompt> early_;
  uint64_t malformed_ = 0;
};

KvEvents::KvEvents(net::Loop& loop, router::prefix::Index& index, ComputedPrompts& computed)
    : loop_(loop), index_(index), computed_(computed), residency_(index) {}

KvEvents::~KvEvents() = default;

void KvEvents::Start(std::shared_ptr<const Runtime> runtime) {
  runtime_ = std::move(runtime);
  auto before = std::exchange(followed_, {});
  for (const router::Replica& replica : runtime_->routes().replicas()) {
    const std::optional<config::KvEvents>& events = runtime_->replica(replica.id).config->kv_events;
    const std::shared_ptr<router::ReplicaState>& state = runtime_->load().shared(replica.id);
    if (!events || !state->member) continue;
    const auto known = before.find(replica.spec.identity);
    const bool same =
        known != before.end() && known->second->replica_state == state &&
        known->second->subscriber->source() == Subscriber::Source{events->url, events->replay, events->topic};
    std::unique_ptr<Followed> follows;
    if (same) {
      follows = std::move(known->second);
      before.erase(known);
    } else {
      if (known != before.end()) before.erase(known);  // before its successor joins
      follows = Follow(*runtime_, replica);
    }
    if (follows) followed_.emplace(replica.spec.identity, std::move(follows));
  }
}

std::unique_ptr<KvEvents::Followed> KvEvents::Follow(const Runtime& runtime, const router::Replica& replica) {
  if (!context_) context_ = std::make_unique<net::ZmqContext>();
  const config::KvEvents& events = *runtime.replica(replica.id).config->kv_events;
  auto follows =
      std::make_unique<Followed>(*this, runtime.load().shared(replica.id),
                                 router::prefix::SaltOf(runtime.routes().model(replica.model).spec.name, {}));
  auto subscriber = Subscriber::Open(loop_, *context_, {events.url, events.replay, events.topic}, *follows);
  if (!subscriber.ok()) {
    log::Error("cannot subscribe to KV events; the cache is predicted",
               {{"replica", replica.spec.identity}, {"why", conf::Std(subscriber.status().message())}});
    return nullptr;
  }
  follows->subscriber = *std::move(subscriber);
  return follows;
}

void KvEvents::Stop() {
  followed_.clear();
  runtime_.reset();
  fetches_.Abort();
  context_.reset();
}

KvEvents::Followed* KvEvents::Find(MemberId member) {
  if (!runtime_) return nullptr;
  const std::optional<ReplicaId> id = runtime_->load().Find(member);
  if (!id) return nullptr;
  const auto found = followed_.find(runtime_->routes().replica(*id).spec.identity);
  return found == followed_.end() ? nullptr : found->second.get();
}

void KvEvents::OnComputed() {
  while (under_way_ < kMaxTokenizing) {
    std::optional<ComputedPrompt> prompt = computed_.Take();
    if (!prompt) return;
    Followed* const replica = Find(prompt->member);
    if (replica != nullptr && residency_.BlocksOf(prompt->member) == 0 && replica->KeepEarly(*prompt))
      continue;
    if (replica == nullptr || (!prompt->ids_at && net::Now() < replica->tokenizer_rests_until)) {
      ++tokenized_[static_cast<size_t>(Tokenized::kSkipped)];
    } else if (prompt->ids_at) {
      LearnIds(*replica, *prompt);
    } else {
      ++under_way_;
      loop_.tasks.Spawn(Tokenize(runtime_, *std::move(prompt)));
    }
  }
}

void KvEvents::LearnIds(const Followed& replica, const ComputedPrompt& prompt) {
  const std::optional<ListedIds> listed = ReadIds(prompt.text, *prompt.ids_at);
  ++tokenized_[static_cast<size_t>(listed ? Tokenized::kLearnt : Tokenized::kSkipped)];
  if (!listed) return;
  residency_.Learn(replica.model_salt, {prompt.blocks, prompt.bytes, listed->ids, listed->ends}, net::Now());
}

net::Task<void> KvEvents::Tokenize(std::shared_ptr<const Runtime> runtime, ComputedPrompt prompt) {
  const ReplicaRuntime& replica = runtime->replica(*runtime->load().Find(prompt.member));
  net::http::FetchRequest request = AskReplica(replica, "/tokenize", kTokenizeTimeout);
  request.method = "POST";
  request.headers.emplace_back("content-type", "application/json");
  request.body =
      fmt::format("{{\"model\":{},{}}}", nlohmann::json(replica.config->model).dump(), prompt.text);
  request.max_response_bytes = kMaxTokenizeAnswer;
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  --under_way_;
  Followed* const follows = runtime == runtime_ ? Find(prompt.member) : nullptr;
  if (follows == nullptr) {  // stopped, or configured again
    OnComputed();
    co_return;
  }
  const std::optional<std::vector<uint64_t>> tokens =
      answer.ok() && answer->status == 200 ? TokensOf(answer->body) : std::nullopt;
  ++tokenized_[static_cast<size_t>(tokens ? Tokenized::kLearnt : Tokenized::kFailed)];
  if (tokens) {
    residency_.Learn(follows->model_salt, {prompt.blocks, prompt.bytes, *tokens, {}}, net::Now());
  } else if (!answer.ok() || answer->status != 400) {  // 400: it rejects this prompt alone
    const bool none = answer.ok() && (answer->status == 404 || answer->status == 405);
    follows->tokenizer_rests_until = net::Now() + (none ? kRestWithoutTokenizer : kRestAfterFailure);
  }
  OnComputed();
}

KvEventsStatus KvEvents::status() const {
  KvEventsStatus status;
  status.residency = residency_.stats();
  status.tokenized = tokenized_;
  status.tokenized[static_cast<size_t>(Tokenized::kSkipped)] += computed_.dropped();
  for (const auto& [identity, follows] : followed_) {
    KvEventsStatus::Followed& replica = status.replicas.emplace_back(follows->figures);
    replica.identity = identity;
    replica.state = Name(follows->subscriber->state());
    replica.counts = follows->subscriber->counts();
    replica.blocks = residency_.BlocksOf(follows->member());
  }
  return status;
}

}  // namespace gateway
