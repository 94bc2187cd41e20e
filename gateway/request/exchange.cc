#include "gateway/request/exchange.h"

#include <algorithm>

#include "gateway/shard/shard.h"

namespace gateway {
namespace {

constexpr size_t kHeadRoom = 1024;

// No engine generates one answer faster. So a request that the client drops at once is not charged its whole
// bound.
constexpr double kFastestTokensPerSecond = 5000;

// The bound for one choice, set by the client or by the gateway.
std::optional<int64_t> OutputBound(const Exchange& x) {
  std::optional<int64_t> bound = x.body.facts.MaxOutputTokens();
  if (x.grant.output_cap) bound = std::min(bound.value_or(*x.grant.output_cap), *x.grant.output_cap);
  return bound;
}

// Never more than the most that a limit can count.
int64_t OfAllChoices(int64_t tokens, const router::BodyFacts& facts) {
  int64_t all = 0;
  const bool overflows = __builtin_mul_overflow(tokens, facts.choices(), &all);
  return overflows ? router::limits::kMaxTokens : std::min(all, router::limits::kMaxTokens);
}

// APIs whose answers are complete as soon as the prompt is computed.
bool GeneratesNothing(router::Api api) {
  return api == router::Api::kEmbeddings || api == router::Api::kRerank || api == router::Api::kScore;
}

}  // namespace

Exchange::Exchange(Shard& shard_of, net::http::ServerConnection& connection, conf::TimePoint started)
    : shard(shard_of), runtime(shard_of.runtime()), client(connection), answer_head(shard_of.texts.Take()) {
  at.started = started;
  identity.id = shard.NewRequestId(started, identity.id_text);
  answer_head.reserve(kHeadRoom);
}

Exchange::~Exchange() {
  shard.texts.Give(std::move(answer_head));
}

size_t Exchange::Band() const {
  const config::Queue& queue = model().config->queue;
  return queue.BandOf(identity.Priority());
}

bool Exchange::MayStartReplica() const {
  const config::ModelPolicy* const policy = model().policy;
  return runtime->MayStartReplica(model_id) &&
         (!identity.is_of_batch() || policy == nullptr || policy->batch.may_start);
}

int64_t Exchange::ExpectedOutput() const {
  if (identity.spec->bound.empty()) return 0;
  return OfAllChoices(model().estimate->ExpectedOutput(OutputBound(*this)), body.facts);
}

router::TokenEstimate::Completion Exchange::MeanOutput() const {
  if (identity.spec->bound.empty()) return {};
  router::TokenEstimate::Completion one = model().estimate->MeanOutput(OutputBound(*this));
  one.mean *= static_cast<double>(body.facts.choices());
  return one;
}

int64_t Exchange::MaxOutput() const {
  if (GeneratesNothing(identity.spec->api)) return 1;
  return identity.spec->bound.empty() ? 0 : OfAllChoices(OutputBound(*this).value_or(0), body.facts);
}

uint64_t Exchange::TokensOfText(uint64_t bytes, uint64_t events) const {
  return static_cast<uint64_t>(model().estimate->OutputOfText(bytes, events));
}

void Exchange::CountText() {
  outcome.counts.input = static_cast<uint64_t>(body.prompt_tokens);
  outcome.counts.output = TokensOfText(outcome.text_bytes, outcome.text_events);
  outcome.counts.source =
      outcome.text_events > 0 ? ledger::TokenSource::kCounted : ledger::TokenSource::kEstimated;
}

void Exchange::CompleteReport() {
  if (outcome.counts.input == 0 && !outcome.audio_ms)
    outcome.counts.input = static_cast<uint64_t>(body.prompt_tokens);
  if (outcome.counts.output > 0 || outcome.text_events == 0 || OutputBound(*this) == 0) return;
  const uint64_t reported = outcome.counts.input;
  outcome.counts.output = TokensOfText(outcome.text_bytes, outcome.text_events);
  outcome.counts.source = ledger::TokenSource::kCounted;
  if (outcome.total_alone) DivideTotal(reported);
}

void Exchange::DivideTotal(uint64_t total) {
  outcome.counts.output = std::min(outcome.counts.output, total);
  outcome.counts.input = total - outcome.counts.output;
  outcome.counts.cached = std::min(outcome.counts.cached, outcome.counts.input);
}

void Exchange::CountBytes(uint64_t bytes) {
  outcome.counts.input = static_cast<uint64_t>(body.prompt_tokens);
  outcome.counts.source = ledger::TokenSource::kEstimated;
  if (identity.spec->bound.empty()) return;
  outcome.counts.source = ledger::TokenSource::kCounted;
  const int64_t by_bytes = std::max<int64_t>(model().estimate->OutputOfText(bytes, 1), 1);
  const int64_t bound = MaxOutput();
  outcome.counts.output = static_cast<uint64_t>(bound > 0 ? std::min(by_bytes, bound) : by_bytes);
}

void Exchange::CountBound(conf::TimePoint now) {
  outcome.counts.input = static_cast<uint64_t>(body.prompt_tokens);
  outcome.counts.source = ledger::TokenSource::kBound;
  if (identity.spec->bound.empty()) return;
  const config::Model& config = *model().config;
  int64_t most = OutputBound(*this).value_or(config.max_output_tokens.value_or(
      config.context.value_or(static_cast<uint32_t>(model().estimate->LikelyMaximum()))));
  if (Happened(at.sent)) {
    const double seconds = std::max(conf::ToSeconds(now - at.sent), 0.0);
    most = std::min(most, 1 + static_cast<int64_t>(seconds * kFastestTokensPerSecond));
  }
  outcome.counts.output = static_cast<uint64_t>(OfAllChoices(std::max<int64_t>(most, 1), body.facts));
}

router::limits::Usage Exchange::Units() const {
  router::limits::Usage units;
  switch (identity.spec->api) {
    case router::Api::kImageGenerations:
    case router::Api::kImageEdits:
    case router::Api::kImageVariations:
      units.images = body.Images();
      break;
    case router::Api::kAudioSpeech:
      units.characters = body.Characters();
      break;
    case router::Api::kAudioTranscriptions:
    case router::Api::kAudioTranslations:
      units.audio_ms = outcome.audio_ms ? static_cast<int64_t>(*outcome.audio_ms)
                                        : body.MostAudioMs(client.head().content_length);
      break;
    default:
      break;
  }
  return units;
}

router::limits::Usage Exchange::Used() const {
  // Without an answer nothing was made; an answer counts as all that was asked for.
  const bool worked = identity.spec != nullptr && (outcome.answering || outcome.counts.output > 0);
  router::limits::Usage used = worked ? Units() : router::limits::Usage{};
  used.input = static_cast<int64_t>(outcome.counts.input);
  used.cached_input = static_cast<int64_t>(outcome.counts.cached);
  used.output = static_cast<int64_t>(outcome.counts.output);
  used.cache_written = static_cast<int64_t>(outcome.cache_written);
  return used;
}

bool Exchange::HidesCached() const {
  return !identity.cache_salt().empty() && !delivery.upstream->salted();
}

void Exchange::RecordProgress() {
  if (model_id != kNoModel) {
    outcome.counts.cost_micro_usd = PriceAt(served()).Cost(Used());
    if (outcome.counts.output > outcome.output_in_metrics) {
      shard.metrics.model(runtime->names(), model_id)
          .output_flow.Add(outcome.counts.output - outcome.output_in_metrics);
      outcome.output_in_metrics = outcome.counts.output;
    }
  }
  grant.ticket.Progress(outcome.counts);
}

void Exchange::KeepAnswer(std::string_view piece) {
  delivery.steering.KeepAnswer(piece);
  if (!identity.principal || identity.principal->store_content != config::StoreContent::kFull) return;
  outcome.answer_bytes += piece.size();
  std::string& text = outcome.answer_text;
  text.append(piece.substr(0, ledger::kMaxContent - std::min(text.size(), ledger::kMaxContent)));
}

void Exchange::StoreContent(ledger::ContentRecord record) {
  if (!identity.principal || !identity.principal->content_key) return;
  record.key = identity.principal->content_key.get();
  grant.ticket.Content(record);
}

}  // namespace gateway
