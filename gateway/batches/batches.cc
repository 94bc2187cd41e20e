#include "gateway/batches/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::batches {
namespace {

constexpr conf::Duration kStorePause = std::chrono::seconds(1);
constexpr conf::Duration kLookAtEnds = std::chrono::seconds(1);
constexpr conf::Duration kEndGrace = std::chrono::seconds(10);  // of lines that run when a batch is to end
constexpr uint32_t kMostTries = 3;

// Why that model may not be asked by the principal.
std::optional<std::string> WhyNot(const Runtime& runtime, const Principal& principal,
                                  std::string_view model) {
  const std::optional<ModelId> found = runtime.routes().Find(model);
  if (found && principal.MayUse(*found)) return std::nullopt;
  return fmt::format("the model \"{}\" does not exist, or this key may not use it", model.substr(0, 128));
}

LineResult ResultOf(const BatchRun::Line& line, LineAnswer answer) {
  LineResult result{.custom_id = line.custom_id,
                    .status = answer.status,
                    .request_id = std::move(answer.request_id),
                    .body = std::move(answer.body),
                    .use = answer.use,
                    .code = {},
                    .message = {}};
  if (!answer.too_large) return result;
  result.status = 0;
  result.code = "answer_too_large";
  result.message = "the answer is larger than a batch keeps; ask for less";
  return result;
}

}  // namespace

Batches::Batches(net::Loop& loop, store::Store& store, Files& files, Environment environment)
    : loop_(loop),
      files_(files),
      environment_(std::move(environment)),
      stored_(loop, store, files),
      pump_(loop.watchdog) {}

net::Task<absl::Status> Batches::Start() {
  co_return co_await stored_.Start();
}

void Batches::Begin() {
  begun_ = true;
  loop_.tasks.Spawn(Pump());
}

// All that have not ended; a new one begins with its creation.
void Batches::DriveAll() {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : stored_.all()) {
    if (!HasEnded(entry.value.state) && driven_.insert(id).second) ids.push_back(id);
  }
  for (std::string& id : ids) loop_.tasks.Spawn(Drive(std::move(id), nullptr));
}

void Batches::Drain() {
  draining_ = true;
}

void Batches::Stop() {
  draining_ = stopped_ = true;
  stored_.Stop();
  for (const auto& [id, run] : std::map(runs_)) run->Stop();
  pump_.Cancel();
}

net::Task<void> Batches::Pause() {
  net::Sleep pause(loop_.watchdog);
  co_await pause.For(kStorePause);
}

Batch Batches::Shown(const Batch& stored) const {
  Batch shown = stored;
  if (const auto run = runs_.find(stored.id); run != runs_.end() && !HasEnded(stored.state)) {
    shown.counts = run->second->counts();
    shown.usage = run->second->usage();
  }
  return shown;
}

std::optional<Batch> Batches::Find(std::string_view tenant, std::string_view id) const {
  const Batch* const batch = stored_.Find(id);
  if (batch == nullptr || batch->tenant != tenant) return std::nullopt;
  return Shown(*batch);
}

std::vector<Batch> Batches::OfTenant(std::string_view tenant) const {
  std::vector<Batch> batches;
  for (const Batch* const batch : stored_.OfTenant(tenant)) batches.push_back(Shown(*batch));
  return batches;
}

std::vector<Batch> Batches::All() const {
  std::vector<Batch> batches;
  for (const auto& [id, entry] : stored_.all()) batches.push_back(Shown(entry.value));
  std::ranges::sort(batches, [](const Batch& a, const Batch& b) {
    return std::pair(a.created, a.id) > std::pair(b.created, b.id);
  });
  return batches;
}

net::Task<Result<Batch>> Batches::Create(Creation creation, conf::TimePoint now) {
  PrincipalRef principal = creation.principal;
  auto created = co_await stored_.Create(std::move(creation),
                                         environment_.runtime()->config().batches.tenant_batches, now);
  if (const auto* const batch = std::get_if<Batch>(&created);
      batch != nullptr && begun_ && driven_.insert(batch->id).second) {
    loop_.tasks.Spawn(Drive(batch->id, std::move(principal)));
  }
  co_return created;
}

net::Task<Result<Batch>> Batches::Cancel(std::string tenant, std::string id, std::string key,
                                         conf::TimePoint now) {
  auto cancelled = co_await stored_.Cancel(std::move(tenant), std::move(id), std::move(key), now);
  Wake();
  if (auto* const batch = std::get_if<Batch>(&cancelled)) *batch = Shown(*batch);
  co_return cancelled;
}

BatchStats Batches::stats() const {
  BatchStats stats{.batches = {},
                   .completed = completed_,
                   .failed = failed_,
                   .not_sent = not_sent_,
                   .put_off = put_off_,
                   .waiting = 0,
                   .in_flight = in_flight_};
  for (const auto& [id, entry] : stored_.all()) ++stats.batches[static_cast<size_t>(entry.value.state)];
  for (const auto& [id, run] : runs_) stats.waiting += run->waiting();
  return stats;
}

net::Task<void> Batches::Drive(std::string id, PrincipalRef principal) {
  if (co_await Validate(id, std::move(principal))) {
    if (const RunRef run = co_await Open(id); run != nullptr && !stopped_) {
      runs_[id] = run;
      Wake();
      co_await run->AwaitEnd();
      if (!stopped_) co_await Finish(run);
      runs_.erase(id);
    }
  }
  driven_.erase(id);
}

net::Task<absl::StatusOr<InputIndex>> Batches::Check(std::string path,
                                                     absl::StatusOr<ledger::ContentKeyRef> key,
                                                     std::string endpoint, PrincipalRef principal) {
  if (!key.ok()) co_return key.status();
  const std::shared_ptr<const Runtime> runtime = environment_.runtime();
  IndexOptions options{
      .api = *ApiOf(endpoint),
      .url = endpoint,
      .max_lines = runtime->config().batches.max_lines,
      .why_not = [runtime, principal](std::string_view model) { return WhyNot(*runtime, *principal, model); },
      .done = nullptr};
  co_return co_await net::OffLoop(loop_, [&]() -> absl::StatusOr<InputIndex> {
    absl::StatusOr<KeptFile> file = KeptFile::Open(path, *key, KeptFile::Access::kRead);
    if (!file.ok()) return file.status();
    return IndexInput(*file, std::move(options));
  });
}

net::Task<bool> Batches::Validate(std::string id, PrincipalRef principal) {
  const Batch* const found = stored_.Find(id);
  if (found == nullptr) co_return false;
  if (found->state != BatchState::kValidating) co_return true;
  const Batch batch = *found;
  if (principal == nullptr) principal = environment_.principal(batch.tenant, batch.key);
  std::vector<BatchProblem> problems;
  LineCounts counts;
  if (principal == nullptr) {
    problems.push_back({.code = "key_revoked",
                        .message = "the key or the tenant of this batch is no longer valid",
                        .param = {},
                        .line = {}});
  } else {
    const absl::StatusOr<std::string> input = co_await InputOf(batch);
    if (stopped_) co_return false;
    absl::StatusOr<InputIndex> index = absl::UnknownError("not read");
    if (!input.ok()) {
      index = input.status();
    } else {
      index =
          co_await Check(*input, files_.KeyOfFile(batch.input_file), batch.endpoint, std::move(principal));
    }
    if (index.ok()) {
      problems = std::move(index->problems);
      counts.total = index->total;
    } else {
      log::Warn("the input of a batch cannot be read",
                {{"batch", id}, {"why", conf::Std(index.status().message())}});
      problems.push_back(
          {.code = "input_unreadable", .message = "the input file cannot be read", .param = {}, .line = {}});
    }
  }
  const bool failed = !problems.empty();
  const conf::TimePoint now = net::Now();
  const bool changed = co_await stored_.Change(
      id,
      [&](Batch& stored) {
        stored.counts = counts;
        if (failed) {
          stored.state = BatchState::kFailed;
          stored.ended = now;
          stored.problems = problems;
          stored.output_file.clear();
          stored.error_file.clear();
        } else if (stored.state == BatchState::kValidating) {
          stored.state = BatchState::kInProgress;
          stored.in_progress = now;
        }
      },
      failed ? "batch.end" : "");
  co_return changed && !failed;
}

// The path of the input; waits until its bucket answers.
net::Task<absl::StatusOr<std::string>> Batches::InputOf(Batch batch) {
  bool told = false;
  while (true) {
    absl::StatusOr<std::string> path = co_await files_.CopyHere(batch.input_file);
    if (path.ok() || absl::IsNotFound(path.status()) || stopped_) co_return path;
    if (!std::exchange(told, true)) {
      log::Error("the input of a batch cannot be fetched from the bucket; retrying",
                 {{"batch", batch.id}, {"why", conf::Std(path.status().message())}});
    }
    co_await Pause();
  }
}

net::Task<Batches::RunRef> Batches::Open(std::string id) {
  bool told = false;
  while (!stopped_) {
    const Batch* const found = stored_.Find(id);
    if (found == nullptr) co_return nullptr;
    const absl::StatusOr<std::string> input = co_await InputOf(*found);
    const Batch* const batch = stored_.Find(id);
    if (batch == nullptr || stopped_) co_return nullptr;
    const auto input_key = files_.KeyOfFile(batch->input_file);
    const auto result_key = files_.KeyOf(batch->sealed_by);
    if (!input_key.ok() || !result_key.ok()) {
      co_await FailErased(id);
      co_return nullptr;
    }
    const auto run = std::make_shared<BatchRun>(
        loop_, *batch,
        BatchRun::Input{.path = input.ok() ? *input : files_.PathOf(batch->input_file), .key = *input_key},
        ResultFiles(files_.PathOf(batch->output_file), files_.PathOf(batch->error_file), batch->of_messages(),
                    *result_key),
        [this] { Wake(); });
    const absl::Status opened = co_await run->Open({.api = *ApiOf(batch->endpoint),
                                                    .url = batch->endpoint,
                                                    .max_lines = UINT64_MAX,  // it was checked
                                                    .why_not = {},
                                                    .done = nullptr});
    if (opened.ok()) co_return run;
    if (!std::exchange(told, true)) {
      log::Error("a batch cannot continue; retrying", {{"batch", id}, {"why", conf::Std(opened.message())}});
    }
    co_await Pause();
  }
  co_return nullptr;
}

net::Task<void> Batches::FailErased(std::string id) {
  co_await stored_.Change(
      id,
      [](Batch& stored) {
        stored.state = BatchState::kFailed;
        stored.ended = net::Now();
        stored.problems = {{.code = "content_erased",
                            .message = "the content of this batch was erased",
                            .param = {},
                            .line = {}}};
        stored.output_file.clear();
        stored.error_file.clear();
      },
      "batch.end");
}

net::Task<void> Batches::Finish(RunRef run) {
  const std::string id = run->batch().id;
  bool told = false;
  const uint64_t failed_before = run->counts().failed;
  while (run->end()) {
    const absl::Status written = co_await run->WriteRest();
    if (stopped_) co_return;
    if (written.ok()) break;
    if (!std::exchange(told, true)) {
      log::Error("the end of a batch cannot be written; retrying",
                 {{"batch", id}, {"why", conf::Std(written.message())}});
    }
    co_await Pause();
  }
  not_sent_ += run->counts().failed - failed_before;
  if (const absl::Status removed = co_await run->RemoveEmptyFiles(); !removed.ok())
    log::Warn("an empty result file could not be removed",
              {{"batch", id}, {"why", conf::Std(removed.message())}});
  const conf::TimePoint now = net::Now();
  const Batch& batch = run->batch();
  std::vector<StoredFile> made;
  for (const auto& [file, bytes, what] : {std::tuple(batch.output_file, run->output_bytes(), "output"),
                                          std::tuple(batch.error_file, run->error_bytes(), "error")}) {
    if (bytes == 0) continue;
    made.push_back({.id = file,
                    .tenant = batch.tenant,
                    .key = batch.key,
                    .purpose = Purpose::kBatchOutput,
                    .name = fmt::format("{}_{}.jsonl", id, what),
                    .bytes = bytes,
                    .sealed_by = batch.sealed_by,
                    .object = {},
                    .created = now,
                    .expires = {}});
    if (batch.output_age) made.back().expires = now + *batch.output_age;
  }
  const std::optional<std::vector<store::Write>> also = co_await MoveResults(id, made);
  if (!also) co_return;
  const bool changed = co_await stored_.Change(
      id,
      [&](Batch& stored) {
        stored.state = run->end() ? run->end()->state : BatchState::kCompleted;
        stored.ended = now;
        if (stored.state == BatchState::kCompleted) stored.finalizing = now;
        stored.counts = run->counts();
        stored.usage = run->usage();
        if (run->output_bytes() == 0) stored.output_file.clear();
        if (run->error_bytes() == 0) stored.error_file.clear();
        if (stored.state == BatchState::kFailed) {
          stored.problems = {
              {.code = run->end()->code, .message = run->end()->message, .param = {}, .line = {}}};
        }
      },
      "batch.end", *also);
  if (changed) {
    if (const absl::Status current = co_await files_.CatchUp(); !current.ok())
      log::Warn("the results of a batch are not shown yet", {{"why", conf::Std(current.message())}});
  }
  // Without an outcome the results stay: the next start asks again.
  for (const StoredFile& file : made) co_await files_.Settle(file, files_.PathOf(file.id), false);
  if (changed && !stored_.UserOf(batch.input_file)) co_await files_.DropCopy(batch.input_file);
}

// Takes the results to where files lie; tries again until the bucket has them. Nothing: the gateway stops.
net::Task<std::optional<std::vector<store::Write>>> Batches::MoveResults(std::string id,
                                                                         std::vector<StoredFile>& made) {
  std::vector<store::Write> writes;
  bool told = false;
  for (size_t moved = 0; moved < made.size();) {
    StoredFile& file = made[moved];
    absl::StatusOr<std::vector<store::Write>> making = co_await files_.Move(file, files_.PathOf(file.id));
    if (making.ok()) {
      std::ranges::move(*making, std::back_inserter(writes));
      ++moved;
      continue;
    }
    if (!stopped_ && !std::exchange(told, true)) {
      log::Error("the results of a batch cannot be put into the bucket; retrying",
                 {{"batch", id}, {"why", conf::Std(making.status().message())}});
    }
    if (!stopped_) co_await Pause();
    if (!stopped_) continue;
    for (size_t i = 0; i < moved; ++i) co_await files_.Settle(made[i], files_.PathOf(made[i].id), false);
    co_return std::nullopt;
  }
  co_return writes;
}

void Batches::Wake() {
  if (std::exchange(woken_, true)) return;
  loop_.Post([this] { pump_.Cancel(); });
}

net::Task<void> Batches::Pump() {
  while (!stopped_) {
    woken_ = false;
    const conf::TimePoint now = net::Now();
    if (now >= look_at_) {
      look_at_ = now + kLookAtEnds;
      DriveAll();
    }
    CheckEnds(now);
    SendMore();
    if (woken_) {
      // What is woken here comes after what waits its turn on the loop.
      net::Sleep turn(loop_.watchdog);
      co_await turn.For(conf::Duration::zero());
      continue;
    }
    conf::TimePoint next = now + kLookAtEnds;
    for (const auto& [id, run] : runs_) {
      if (const auto at = run->NextAt(now)) next = std::min(next, *at);
    }
    co_await pump_.Until(next);
  }
}

void Batches::CheckEnds(conf::TimePoint now) {
  for (const auto& [id, run] : runs_) {
    const Batch* const stored = stored_.Find(id);
    if (!run->end() && stored != nullptr && stored->state == BatchState::kCancelling) {
      run->EndBy({.state = BatchState::kCancelled,
                  .code = std::string(kCodeCancelled),
                  .message = "the batch was cancelled before this request was executed"},
                 now);
    } else if (!run->end() && now >= run->batch().expires) {
      run->EndBy({.state = BatchState::kExpired,
                  .code = std::string(kCodeExpired),
                  .message = "this request could not be executed before the completion window expired"},
                 now);
    }
    if (run->end_asked() && now >= *run->end_asked() + kEndGrace) run->Abort();
  }
}

void Batches::SendMore() {
  const std::shared_ptr<const Runtime> runtime = environment_.runtime();
  if (draining_ || !runtime->config().files) return;
  const conf::TimePoint now = net::Now();
  size_t unwritten = 0;
  for (const auto& [id, run] : runs_) unwritten += run->unwritten();
  while (in_flight_ + unwritten < runtime->config().batches.max_in_flight && SendNext(now)) {
  }
}

// The next tenant with a line that may go; of its batches, the oldest with one.
bool Batches::SendNext(conf::TimePoint now) {
  std::map<std::string_view, std::vector<RunRef>> by_tenant;
  for (const auto& [id, run] : runs_) by_tenant[run->batch().tenant].push_back(run);
  if (by_tenant.empty()) return false;
  auto at = by_tenant.upper_bound(last_tenant_);
  for (size_t i = 0; i < by_tenant.size(); ++i, ++at) {
    if (at == by_tenant.end()) at = by_tenant.begin();
    std::ranges::sort(at->second, {}, [](const RunRef& run) { return run->batch().created; });
    for (const RunRef& run : at->second) {
      std::optional<BatchRun::Line> line = run->Take(now);
      if (!line) continue;
      last_tenant_ = at->first;
      ++in_flight_;
      loop_.tasks.Spawn(RunLine(run, *std::move(line)));
      return true;
    }
  }
  return false;
}

net::Task<void> Batches::RunLine(RunRef run, BatchRun::Line line) {
  const Batch& batch = run->batch();
  LineAnswer answer =
      co_await environment_.send({.tenant = batch.tenant,
                                  .key = batch.key,
                                  .target = batch.endpoint,
                                  .request_id = fmt::format("{}:{}", batch.id, line.ref.number),
                                  .body = line.body,
                                  .on_begun = [run, number = line.ref.number](std::function<void()> abort) {
                                    run->OnBegun(number, std::move(abort));
                                  }});
  --in_flight_;
  const conf::TimePoint now = net::Now();
  const bool cut = answer.status == 0 && !answer.too_large && (run->end() || stopped_);
  switch (cut ? LineVerdict::kWait : Judge(answer)) {
    case LineVerdict::kWait:
      if (cut) {
        run->Drop(line);
        break;
      }
      ++put_off_;
      run->Wait(std::move(line), answer.retry_after, now);
      break;
    case LineVerdict::kRetry:
      if (++line.tries < kMostTries) {
        ++put_off_;
        run->Wait(std::move(line), answer.retry_after, now);
        break;
      }
      [[fallthrough]];
    case LineVerdict::kEnded: {
      const LineResult result = ResultOf(line, std::move(answer));
      ++(result.completed() ? completed_ : failed_);
      run->Ended(line, result);
      break;
    }
    case LineVerdict::kStop: {
      std::string code = ErrorCodeOf(answer.body);
      run->EndBy({.state = BatchState::kFailed,
                  .code = code.empty() ? "key_revoked" : std::move(code),
                  .message = "the key of this batch is no longer valid"},
                 now);
      run->Drop(line);
      break;
    }
  }
  Wake();
}

}  // namespace gateway::batches
