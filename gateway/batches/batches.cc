#include "gateway/batches/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "conf/text.h"
#include "gateway/batches/result_commit.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::batches {
namespace {

constexpr conf::Duration kStorePause = std::chrono::seconds(1);
constexpr conf::Duration kLookAtEnds = std::chrono::seconds(1);
constexpr conf::Duration kEndGrace = std::chrono::seconds(10);  // of lines that run when a batch is to end
constexpr uint32_t kMostTries = 3;
constexpr size_t kMostCommits = 8;  // uploads of results at once
constexpr std::string_view kPaused =
    "the gateway cannot store results of this batch now; it continues by itself as soon as it can";

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

// A reload may have removed the tenant, perhaps by mistake: its lines wait until another reload brings it back.
bool IsConfigured(const Batches::Environment& environment, const std::string& tenant) {
  return environment.principal(tenant, {}) != nullptr;
}

}  // namespace

Batches::Batches(net::Loop& loop, store::Store& store, Files& files, Environment environment)
    : loop_(loop),
      files_(files),
      environment_(std::move(environment)),
      stored_(loop, store, files, [this] { Wake(); }),
      contact_(environment_.sharing.settle),
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
  const conf::TimePoint now = net::Now();
  std::vector<std::string> ids;
  std::vector<std::string> shared;
  for (const auto* const entry : stored_.all()) {
    const Batch& batch = entry->value;
    if (HasEnded(batch.state) || driven_.contains(batch.id)) continue;
    if (!batch.shared) {
      ids.push_back(batch.id);
    } else if (MayTakeOver(batch, now)) {
      shared.push_back(batch.id);
    }
  }
  driven_.insert(ids.begin(), ids.end());
  driven_.insert(shared.begin(), shared.end());
  for (std::string& id : ids) loop_.tasks.Spawn(Drive(std::move(id), nullptr));
  for (std::string& id : shared) loop_.tasks.Spawn(TakeOver(std::move(id)));
}

bool Batches::MayTakeOver(const Batch& batch, conf::TimePoint now) const {
  const Sharing& sharing = environment_.sharing;
  if (draining_ || !files_.shares() || !contact_.MaySend(now)) return false;
  if (!batch.runner.empty() && batch.runner != sharing.gateway &&
      (!contact_.MayTakeOver(now) || sharing.lives(batch.runner)))
    return false;
  // Another gateway may have the master key that this one lacks.
  return !absl::IsUnavailable(files_.KeyOf(batch.sealed_by).status());
}

// Also one that this gateway has run before: its restart may have taken so long that another has it.
net::Task<void> Batches::TakeOver(std::string id) {
  const Batch* const found = stored_.Find(id);
  const std::string before = found == nullptr ? "" : found->runner;
  if (const absl::Status claimed = co_await stored_.Claim(id); !claimed.ok()) {
    if (!absl::IsAborted(claimed) && !absl::IsNotFound(claimed))
      log::Warn("a batch cannot be taken over now; retrying",
                {{"batch", id}, {"why", conf::Std(claimed.message())}});
    driven_.erase(id);
    co_return;
  }
  if (before != environment_.sharing.gateway) {
    ++taken_over_;
    log::Info("this gateway continues a batch of another", {{"batch", id}, {"before", before}});
  }
  // Its input may have come after the last that this gateway knows of files.
  if (!(co_await files_.CatchUpShared()).ok()) {
    driven_.erase(id);
    co_return;
  }
  co_await Drive(id, nullptr);
}

net::Task<void> Batches::AskStore() {
  const conf::TimePoint asked = net::Now();
  if ((co_await stored_.CatchUpShared()).ok() && (co_await files_.CatchUpShared()).ok()) {
    contact_.Heard(asked);
    Wake();
  }
  asking_ = false;
}

// What another gateway has taken over ends here.
void Batches::CheckRunners() {
  for (const auto& [id, run] : std::map(runs_)) {
    if (!run->batch().shared || run->lost()) continue;
    const Batch* const stored = stored_.Find(id);
    if (stored != nullptr && stored_.IsRunHere(*stored) && stored->epoch == run->batch().epoch) continue;
    log::Warn("another gateway has taken a batch over", {{"batch", id}});
    run->Lose();
  }
}

void Batches::CommitMore(conf::TimePoint now) {
  size_t under_way = 0;
  for (const auto& [id, run] : runs_) under_way += run->committing ? 1 : 0;
  for (const auto& [id, run] : runs_) {
    if (under_way >= kMostCommits) break;
    if (!run->batch().shared || run->stopped() || run->committing || run->finishing) continue;
    if (draining_ && run->in_flight() == 0 && run->unwritten() == 0) {
      run->committing = true;
      loop_.tasks.Spawn(Leave(run));
    } else if (run->CommitDue(now)) {
      run->committing = true;
      loop_.tasks.Spawn(Commit(run));
    }
    under_way += run->committing ? 1 : 0;
  }
}

net::Task<void> Batches::Commit(RunRef run) {
  const std::string id = run->batch().id;
  const absl::Status done = co_await CommitResults(files_, stored_, run);
  if (absl::IsPermissionDenied(done)) {
    run->Lose();
  } else if (!done.ok() && !stopped_) {
    const conf::TimePoint now = net::Now();
    if (run->why_uncommitted().empty()) {
      log::Warn("results of a batch could not be committed; retrying",
                {{"batch", id}, {"why", conf::Std(done.message())}});
    }
    run->OnCommitFailed(std::string(conf::Std(done.message())), now);
    if (run->HeldBack(now)) co_await ShowPaused(run->batch(), done, std::exchange(run->told_paused, true));
  }
  run->committing = false;
  Wake();
}

net::Task<void> Batches::ShowPaused(Batch batch, absl::Status why, bool told) {
  const Batch* const stored = stored_.Find(batch.id);
  if (stored == nullptr || !stored->paused.empty()) co_return;
  if (!told) {
    log::Error("a batch is paused, since its results cannot be committed",
               {{"batch", batch.id}, {"why", conf::Std(why.message())}});
  }
  (co_await stored_.ChangeRun(batch.id, batch.epoch, [](Batch& changed) {
    changed.paused = kPaused;
    return true;
  })).IgnoreError();
}

// So that another gateway need not wait until this one is known to be gone, and repeats nothing.
net::Task<void> Batches::Leave(RunRef run) {
  absl::Status done = co_await CommitResults(files_, stored_, run);
  if (done.ok()) {
    done = co_await stored_.ChangeRun(run->batch().id, run->batch().epoch, [](Batch& batch) {
      batch.runner.clear();
      return true;
    });
  }
  run->committing = false;
  // Otherwise its results stay on the disk, for the next start.
  done.ok() ? run->Lose() : run->Stop();
}

bool Batches::leaving() const {
  return std::ranges::any_of(
      runs_, [](const auto& of) { return of.second->batch().shared && !of.second->stopped(); });
}

// With the copy of the input, unless another batch here needs it.
net::Task<void> Batches::RemoveRunFiles(RunRef run) {
  for (const std::string& path : {run->files().output_path(), run->files().error_path()})
    (co_await files_.RemoveBytes(path)).IgnoreError();
  if (const std::string& input = run->batch().input_file; !stored_.NeededHere(input))
    co_await files_.DropCopy(input);
}

void Batches::Drain() {
  draining_ = true;
  Wake();
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
  if (stored.shared) return shown;  // as every gateway shows it
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
  for (const auto* const entry : stored_.all()) batches.push_back(Shown(entry->value));
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
      batch != nullptr && begun_ && stored_.IsRunHere(*batch) && driven_.insert(batch->id).second) {
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
                   .in_flight = in_flight_,
                   .paused = 0,
                   .taken_over = taken_over_};
  // A shared one is counted by the gateway that runs it or ran it last.
  for (const auto* const entry : stored_.all()) {
    if (!stored_.IsRunHere(entry->value)) continue;
    ++stats.batches[static_cast<size_t>(entry->value.state)];
    if (!HasEnded(entry->value.state) && !entry->value.paused.empty()) ++stats.paused;
  }
  for (const auto& [id, run] : runs_) stats.waiting += run->waiting();
  return stats;
}

net::Task<void> Batches::Drive(std::string id, PrincipalRef principal) {
  if (co_await Validate(id, std::move(principal))) {
    if (const RunRef run = co_await Open(id); run != nullptr && !stopped_) {
      runs_[id] = run;
      Wake();
      co_await run->AwaitEnd();
      if (!stopped_ && !run->stopped()) {
        if (run->batch().shared) {
          co_await FinishShared(run);
        } else {
          co_await Finish(run);
        }
      }
      runs_.erase(id);
      if (run->lost()) co_await RemoveRunFiles(run);
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

net::Task<void> Batches::AwaitTenant(std::string id) {
  bool told = false;
  while (!stopped_) {
    const Batch* const batch = stored_.Find(id);
    const bool waits = batch != nullptr && batch->state == BatchState::kValidating &&
                       stored_.IsRunHere(*batch) && net::Now() < batch->expires;
    if (!waits || IsConfigured(environment_, batch->tenant)) co_return;
    if (!std::exchange(told, true)) {
      log::Warn("a batch waits, since the configuration does not have its tenant",
                {{"batch", id}, {"tenant", batch->tenant}});
    }
    co_await Pause();
  }
}

net::Task<bool> Batches::Validate(std::string id, PrincipalRef principal) {
  if (principal == nullptr) co_await AwaitTenant(id);
  const Batch* const found = stored_.Find(id);
  if (stopped_ || (found != nullptr && !stored_.IsRunHere(*found))) co_return false;
  if (found == nullptr) co_return false;
  const bool expired = principal == nullptr && net::Now() >= found->expires;
  if (found->state != BatchState::kValidating || expired) co_return true;
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
        stored.paused.clear();
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
    if (!stored_.IsRunHere(*batch)) co_return nullptr;
    const auto input_key = files_.KeyOfFile(batch->input_file);
    const auto result_key = files_.KeyOf(batch->sealed_by);
    if (absl::IsFailedPrecondition(input_key.status()) || absl::IsFailedPrecondition(result_key.status())) {
      co_await FailErased(id);
      co_return nullptr;
    }
    absl::Status opened = input_key.ok() ? result_key.status() : input_key.status();
    const Batch opening = *batch;
    const auto path_of = [&](const std::string& file) {
      return opening.shared ? files_.RunPathOf(file, opening.epoch) : files_.PathOf(file);
    };
    const std::string output = path_of(opening.output_file);
    const std::string errors = path_of(opening.error_file);
    if (opened.ok()) opened = co_await files_.Assemble(opening.output_parts, output);
    if (opened.ok()) opened = co_await files_.Assemble(opening.error_parts, errors);
    RunRef run;
    if (opened.ok()) {
      run = std::make_shared<BatchRun>(
          loop_, opening,
          BatchRun::Input{.path = input.ok() ? *input : files_.PathOf(opening.input_file), .key = *input_key},
          ResultFiles(output, errors, opening.of_messages(), *result_key), [this] { Wake(); },
          BatchRun::CommitTimes{.age = environment_.sharing.commit_age,
                                .held_back_age = environment_.sharing.held_back_age});
      opened = co_await run->Open({.api = *ApiOf(opening.endpoint),
                                   .url = opening.endpoint,
                                   .max_lines = UINT64_MAX,  // it was checked
                                   .why_not = {},
                                   .done = nullptr});
    }
    if (opened.ok() && !run->HasCommitted())
      opened = absl::DataLossError("results that count were missing on the disk");
    if (opened.ok()) co_return run;
    // A crash of this machine has left less on the disk than the bucket has.
    if (opening.shared && run != nullptr && absl::IsDataLoss(opened)) co_await RemoveRunFiles(run);
    if (opening.shared) co_await ShowPaused(opening, opened, true);
    if (!std::exchange(told, true)) {
      log::Error("a batch cannot continue; retrying", {{"batch", id}, {"why", conf::Std(opened.message())}});
    }
    co_await Pause();
  }
  co_return nullptr;
}

std::vector<store::Write> Batches::DiscardingOf(const Batch& batch) const {
  std::vector<store::Write> writes;
  for (const ResultParts* const parts : {&batch.output_parts, &batch.error_parts}) {
    for (const ResultPart& part : *parts) writes.push_back(files_.Discarding(part));
  }
  return writes;
}

net::Task<void> Batches::FailErased(std::string id) {
  const Batch* const batch = stored_.Find(id);
  std::vector<store::Write> also = batch == nullptr ? std::vector<store::Write>() : DiscardingOf(*batch);
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
        stored.output_parts.clear();
        stored.error_parts.clear();
      },
      "batch.end", std::move(also));
  files_.WakeRemovals();
}

// What is left gets the reason of the end. False: the gateway stops, or has lost the batch.
net::Task<bool> Batches::WriteRest(RunRef run) {
  bool told = false;
  const uint64_t failed_before = run->counts().failed;
  while (run->end()) {
    const absl::Status written = co_await run->WriteRest();
    if (stopped_ || run->lost()) co_return false;
    if (written.ok()) break;
    if (!std::exchange(told, true)) {
      log::Error("the end of a batch cannot be written; retrying",
                 {{"batch", run->batch().id}, {"why", conf::Std(written.message())}});
    }
    co_await Pause();
  }
  not_sent_ += run->counts().failed - failed_before;
  co_return true;
}

std::vector<StoredFile> Batches::MadeFiles(const BatchRun& run, conf::TimePoint now) const {
  const Batch& batch = run.batch();
  std::vector<StoredFile> made;
  for (const auto& [file, bytes, what] : {std::tuple(batch.output_file, run.output_bytes(), "output"),
                                          std::tuple(batch.error_file, run.error_bytes(), "error")}) {
    if (bytes == 0) continue;
    made.push_back({.id = file,
                    .tenant = batch.tenant,
                    .key = batch.key,
                    .purpose = Purpose::kBatchOutput,
                    .name = fmt::format("{}_{}.jsonl", batch.id, what),
                    .bytes = bytes,
                    .sealed_by = batch.sealed_by,
                    .object = {},
                    .parts = {},
                    .created = now,
                    .expires = {},
                    .shared = batch.shared});
    if (batch.output_age) made.back().expires = now + *batch.output_age;
  }
  return made;
}

void Batches::End(const BatchRun& run, conf::TimePoint now, Batch& stored) {
  stored.state = run.end() ? run.end()->state : BatchState::kCompleted;
  stored.ended = now;
  if (stored.state == BatchState::kCompleted) stored.finalizing = now;
  stored.counts = run.counts();
  stored.usage = run.usage();
  if (run.output_bytes() == 0) stored.output_file.clear();
  if (run.error_bytes() == 0) stored.error_file.clear();
  if (stored.state == BatchState::kFailed) {
    stored.problems = {{.code = run.end()->code, .message = run.end()->message, .param = {}, .line = {}}};
  }
}

net::Task<void> Batches::Finish(RunRef run) {
  const std::string id = run->batch().id;
  if (!co_await WriteRest(run)) co_return;
  if (const absl::Status removed = co_await run->RemoveEmptyFiles(); !removed.ok())
    log::Warn("an empty result file could not be removed",
              {{"batch", id}, {"why", conf::Std(removed.message())}});
  const conf::TimePoint now = net::Now();
  const Batch& batch = run->batch();
  std::vector<StoredFile> made = MadeFiles(*run, now);
  const std::optional<std::vector<store::Write>> also = co_await MoveResults(id, made);
  if (!also) co_return;
  const bool changed =
      co_await stored_.Change(id, [&](Batch& stored) { End(*run, now, stored); }, "batch.end", *also);
  if (changed) {
    if (const absl::Status current = co_await files_.CatchUp(); !current.ok())
      log::Warn("the results of a batch are not shown yet", {{"why", conf::Std(current.message())}});
  }
  // Without an outcome the results stay: the next start asks again.
  for (const StoredFile& file : made) co_await files_.Settle(file, files_.PathOf(file.id), false);
  if (changed && !stored_.UserOf(batch.input_file)) co_await files_.DropCopy(batch.input_file);
}

// The parts of the results become files, in the commit that ends the batch.
net::Task<void> Batches::FinishShared(RunRef run) {
  const std::string id = run->batch().id;
  run->finishing = true;
  if (!co_await WriteRest(run)) co_return;
  while (run->uncommitted() > 0 || run->committing) {
    if (!std::exchange(run->committing, true)) {
      co_await Commit(run);
      if (run->uncommitted() == 0) break;
    }
    if (stopped_ || run->lost()) co_return;
    co_await Pause();
  }
  const conf::TimePoint now = net::Now();
  const Batch* const stored = stored_.Find(id);
  if (stopped_ || run->lost() || stored == nullptr || !stored_.IsRunHere(*stored)) co_return;
  std::vector<store::Write> also;
  for (StoredFile& file : MadeFiles(*run, now)) {
    file.parts = file.id == stored->output_file ? stored->output_parts : stored->error_parts;
    also.push_back(files_.Making(file));
  }
  const bool changed = co_await stored_.Change(
      id,
      [&](Batch& batch) {
        End(*run, now, batch);
        batch.paused.clear();
        batch.output_parts.clear();
        batch.error_parts.clear();
      },
      "batch.end", std::move(also));
  if (!changed) co_return;
  if (const absl::Status current = co_await files_.CatchUp(); !current.ok())
    log::Warn("the results of a batch are not shown yet", {{"why", conf::Std(current.message())}});
  co_await RemoveRunFiles(run);
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
      if (environment_.sharing.shared() && !std::exchange(asking_, true)) loop_.tasks.Spawn(AskStore());
      DriveAll();
    }
    CheckRunners();
    CheckEnds(now);
    CommitMore(now);
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
  for (const auto& [id, run] : runs_) {
    if (!run->batch().shared || contact_.MaySend(now)) by_tenant[run->batch().tenant].push_back(run);
  }
  if (by_tenant.empty()) return false;
  auto at = by_tenant.upper_bound(last_tenant_);
  for (size_t i = 0; i < by_tenant.size(); ++i, ++at) {
    if (at == by_tenant.end()) at = by_tenant.begin();
    if (!IsConfigured(environment_, std::string(at->first))) continue;
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
  const bool cut = answer.status == 0 && !answer.too_large && (run->end() || run->lost() || stopped_);
  const bool removed =
      (answer.status == 401 || answer.status == 403) && !IsConfigured(environment_, batch.tenant);
  switch (cut || removed ? LineVerdict::kWait : Judge(answer)) {
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
                  .message = "the key or the tenant of this batch is no longer valid"},
                 now);
      run->Drop(line);
      break;
    }
  }
  Wake();
}

}  // namespace gateway::batches
