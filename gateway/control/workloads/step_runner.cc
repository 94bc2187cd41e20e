#include "gateway/control/workloads/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "conf/text.h"
#include "gateway/control/workloads/gang.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunSpec;

constexpr conf::Duration kRetry = std::chrono::seconds(1);
constexpr conf::Duration kElsewhere = std::chrono::seconds(2);  // for a start on a node that does not answer
constexpr size_t kMaxSteps = 256;                               // under way at once

}  // namespace

bool StepRunner::IsPersisted(const Workload& workload) const {
  return workload.saved && (workload.recorded || workloads_.KindOf(workload).ActionOf(workload).empty());
}

bool StepRunner::NeedsStep(const Workload& workload, conf::TimePoint now) const {
  if (workload.busy || now < workload.next_step) return false;
  if (closing_ && (workload.kind == Kind::kJob || !ends_replicas_)) return false;
  if (!IsPersisted(workload)) return true;
  switch (workload.state) {
    case State::kPlaced:
      return true;
    case State::kStarting:
      return !std::ranges::all_of(workload.members, &Member::started);
    case State::kSaving:
      return workloads_.KindOf(workload).SaveSignal(workload) != 0 &&
             std::ranges::any_of(workload.members,
                                 [](const Member& m) { return m.started && !m.ended && !m.told; });
    case State::kDraining:
      return workload.all_ended() || std::ranges::any_of(workload.members, [](const Member& m) {
               return !m.ended && (!m.told || !m.asked);
             });
    default:
      return false;
  }
}

void StepRunner::TakeSteps() {
  if (!context_.leads()) return;
  const conf::TimePoint now = context_.now();
  std::vector<std::string> due;
  for (const Workload& workload : workloads_.all()) {
    if (due.size() + under_way_ >= kMaxSteps) break;
    if (NeedsStep(workload, now)) due.push_back(workload.id);
  }
  for (std::string& id : due) context_.spawn(Step(std::move(id)));
  std::ranges::move(workloads_.TakeRunsToForget(), std::back_inserter(to_forget_));
  if (!to_forget_.empty() && !forgetting_ && !closing_ && now >= next_forget_) context_.spawn(ForgetRuns());
}

void StepRunner::Close(bool ends_replicas) {
  closing_ = true;
  ends_replicas_ = ends_replicas;
}

net::Task<void> StepRunner::Step(std::string id) {
  Workload* const begun = workloads_.Find(id);
  if (begun == nullptr) co_return;
  begun->busy = true;
  ++under_way_;
  std::string failure;  // without its end here, the workload could never be ended either
  try {
    co_await Act(id);
  } catch (const std::exception& error) {
    failure = error.what();
    log::Error("a step failed; retrying", {{"workload", id}, {"why", failure}});
  }
  --under_way_;
  if (Workload* const workload = workloads_.Find(id)) {
    workload->busy = false;
    if (!failure.empty()) workload->next_step = context_.now() + kRetry;
  }
  context_.wake();
}

net::Task<void> StepRunner::Act(std::string id) {
  Workload* workload = workloads_.Find(id);
  // A workload that never reached the launcher and is no longer wanted needs no record.
  const bool nothing_ran = workload->state == State::kDraining && !workload->asked();
  if (!nothing_ran && !IsPersisted(*workload)) {
    const uint64_t version = workload->version;
    const absl::Status persisted = co_await Persist(id);
    workload = workloads_.Find(id);
    if (workload == nullptr || workload->version != version) co_return;
    if (!persisted.ok()) {
      log::Error("a step cannot be recorded, so it is not carried out; retrying",
                 {{"workload", id}, {"why", conf::Std(persisted.message())}});
      workload->next_step = context_.now() + kRetry;
      co_return;
    }
  }
  switch (workload->state) {
    case State::kPlaced:
      workload->state = State::kStarting;
      workload->since = context_.now();
      co_return co_await Launch(id);
    case State::kStarting:
      co_return co_await Launch(id);
    case State::kSaving:
      co_return co_await SignalSave(id);
    case State::kDraining:
      co_return co_await SignalEnd(id);
    default:
      co_return;
  }
}

// Ledger and store are written at the same time; a shared store is written first.
net::Task<absl::Status> StepRunner::Persist(std::string id) {
  const Workload& workload = *workloads_.Find(id);
  std::string action = workloads_.KindOf(workload).ActionOf(workload);
  const uint64_t version = workload.version;
  absl::Status recorded;
  net::Event written;
  const bool records = !workload.recorded && !action.empty();
  if (context_.shared) {
    if (absl::Status saved = co_await Save(id); !saved.ok()) co_return saved;
    const Workload* const now = workloads_.Find(id);
    if (now == nullptr || now->version != version) co_return absl::OkStatus();
  }
  if (records) {
    context_.spawn([](StepRunner& self, std::string of, std::string word, absl::Status& out,
                      net::Event& done) -> net::Task<void> {
      out = co_await self.Record(std::move(of), std::move(word), false);
      done.Set();
    }(*this, id, std::move(action), recorded, written));
  }
  const absl::Status saved = co_await Save(id);
  if (records) co_await written.Wait();
  if (Workload* const now = workloads_.Find(id); now != nullptr && now->version == version)
    now->recorded |= recorded.ok();
  co_return recorded.ok() ? saved : recorded;
}

net::Task<absl::Status> StepRunner::Save(std::string id) {
  Workload* workload = workloads_.Find(id);
  if (workload == nullptr) co_return absl::OkStatus();
  if (workload->kind != Kind::kOrphan && !workload->saved) {
    const uint64_t version = workload->version;
    context_.store->Put(*workload);
    if (absl::Status kept = co_await context_.store->Flush(); !kept.ok()) co_return kept;
    workload = workloads_.Find(id);
    if (workload == nullptr || workload->version != version) co_return absl::OkStatus();
  }
  workload->saved = true;
  co_return absl::OkStatus();
}

net::Task<absl::Status> StepRunner::Record(std::string id, std::string action, bool ended) {
  const Workload& workload = *workloads_.Find(id);
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = std::move(action);
  event.actor = workload.actor.empty() ? "control" : workload.actor;
  event.subject = id;
  if (workload.of) event.tenant = workload.file().job.tenant;
  event.detail = workloads_.KindOf(workload).DetailOf(workload, ended);
  co_return co_await context_.record(std::move(event));
}

net::Task<void> StepRunner::Launch(std::string id) {
  const Workload& workload = *workloads_.Find(id);
  const uint64_t version = workload.version;
  const WorkloadKind& kind = workloads_.KindOf(workload);
  for (uint32_t rank = 0; rank < workloads_.Find(id)->members.size(); ++rank) {
    Workload* now = workloads_.Find(id);
    if (now->members[rank].started) continue;
    absl::StatusOr<RunSpec> spec = kind.SpecOf(*now, rank);
    if (absl::IsUnavailable(spec.status())) {
      now->members[rank].why = conf::Std(spec.status().message());
      now->next_step = context_.now() + kRetry;
      co_return;
    }
    if (!spec.ok()) {
      co_return workloads_.KindOf(*now).Fail(*now, std::string(conf::Std(spec.status().message())),
                                             Blame::kForever);
    }
    now->members[rank].user = spec->user;
    spec->id = now->members[rank].run;
    spec->grant = GrantOf(context_.cluster(), now->members[rank].at.holding);
    if (now->kind == Kind::kJob || now->members.size() > 1)
      JoinGang(*spec, GangOf(*now, rank, *context_.launcher, context_.cluster()));
    if (std::string why = now->asked() ? std::string() : nothing_starts(); !why.empty()) {
      now->members[rank].why = fmt::format("nothing starts: {}", why);
      now->next_step = context_.now() + kRetry;
      co_return;
    }
    const absl::Status may = co_await may_start_on(spec->grant.node);
    now = workloads_.Find(id);
    if (now->version != version) co_return;
    if (!may.ok()) {
      now->members[rank].why = conf::Std(may.message());
      now->next_step = context_.now() + kRetry;
      if (context_.now() - now->since < kElsewhere) co_return;
      co_return workloads_.KindOf(*now).Fail(*now, std::string(conf::Std(may.message())), Blame::kPlace);
    }
    if (absl::Status leads = co_await context_.confirm(); !leads.ok()) {
      now = workloads_.Find(id);
      now->next_step = context_.now() + kRetry;
      co_return;
    }
    now = workloads_.Find(id);
    if (now->version != version) co_return;
    spec->epoch = context_.epoch;
    if (now->kind == Kind::kReplica && !now->asked()) ++launches_;
    now->members[rank].asked = true;
    const absl::Status started = co_await context_.launcher->Start(*std::move(spec));
    now = workloads_.Find(id);
    const bool same = now->version == version;
    // Another attempt may have begun meanwhile: it waits for this step, so the members are the same.
    Member& member = now->members[rank];
    member.started = started.ok();
    if (!same) co_return;
    if (started.ok()) continue;
    member.why = conf::Std(started.message());
    if (!absl::IsUnavailable(started)) {
      co_return workloads_.KindOf(*now).Fail(
          *now, fmt::format("member {} cannot be started: {}", rank, member.why), Blame::kForever);
    }
    now->next_step = context_.now() + kRetry;
    co_return;
  }
}

net::Task<void> StepRunner::SignalSave(std::string id) {
  const int signal = workloads_.KindOf(*workloads_.Find(id)).SaveSignal(*workloads_.Find(id));
  if (signal == 0) co_return;
  for (size_t rank = 0;; ++rank) {
    Workload* workload = workloads_.Find(id);
    if (rank >= workload->members.size() || workload->state != State::kSaving) co_return;
    const auto waits = [&] {
      const Member& member = workload->members[rank];
      return member.started && !member.ended && !member.told;
    };
    if (!waits()) continue;
    const bool leads = (co_await context_.confirm()).ok();
    workload = workloads_.Find(id);
    if (!leads) {
      workload->next_step = context_.now() + kRetry;
      co_return;
    }
    if (workload->state != State::kSaving) co_return;
    if (!waits()) continue;
    Member& member = workload->members[rank];
    member.told = member.signalled = true;
    const std::string run = member.run;
    const absl::Status told = co_await context_.launcher->Signal(run, signal);
    if (told.ok() || absl::IsNotFound(told)) continue;
    log::Warn("save signal not delivered; retrying",
              {{"workload", id}, {"run", run}, {"why", conf::Std(told.message())}});
    workload = workloads_.Find(id);
    if (workload->state != State::kSaving) co_return;
    workload->members[rank].told = false;  // it may come twice: work that is not saved is lost
    workload->next_step = context_.now() + kRetry;
  }
}

net::Task<void> StepRunner::SignalEnd(std::string id) {
  for (size_t rank = 0; rank < workloads_.Find(id)->members.size(); ++rank) {
    Workload& workload = *workloads_.Find(id);
    Member& member = workload.members[rank];
    if (!member.asked) member.ended = true;
    if (member.ended || member.told) continue;
    member.told = member.signalled = true;
    const std::string run = member.run;
    const conf::Duration grace = workloads_.KindOf(workload).StopGrace(workload);
    absl::Status told = co_await context_.confirm();
    if (told.ok()) told = co_await context_.launcher->Stop(run, grace);
    Workload& now = *workloads_.Find(id);
    Member& after = now.members[rank];
    if (told.ok()) {
      // A refused start may have happened or not: the launcher knows by now, and ends the run if it exists.
      after.started = true;
      after.told_at = context_.now();
      continue;
    }
    log::Warn("member could not be stopped; retrying",
              {{"workload", id}, {"run", run}, {"why", conf::Std(told.message())}});
    after.told = false;
    now.next_step = context_.now() + kRetry;
  }
  if (workloads_.Find(id)->all_ended()) co_await Finish(id);
}

// All its runs have ended. The device time is recorded before the devices are released.
net::Task<void> StepRunner::Finish(std::string id) {
  const auto again = [&] { workloads_.Find(id)->next_step = context_.now() + kRetry; };
  const uint64_t version = workloads_.Find(id)->version;
  if (!co_await metered(*workloads_.Find(id))) co_return again();
  const WorkloadKind& kind = workloads_.KindOf(*workloads_.Find(id));
  if (!kind.KeepsRuns()) {
    for (size_t rank = 0; rank < workloads_.Find(id)->members.size(); ++rank) {
      const Member& member = workloads_.Find(id)->members[rank];
      if (!member.asked) continue;
      const std::string run = member.run;
      if (!(co_await context_.confirm()).ok()) co_return again();
      if (!(co_await context_.launcher->Forget(run)).ok()) co_return again();
    }
  }
  if (std::string action = kind.EndOf(*workloads_.Find(id)); !action.empty()) {
    const absl::Status recorded = co_await Record(id, std::move(action), true);
    if (!recorded.ok()) {
      log::Error("an end cannot be recorded, so no device is released; retrying",
                 {{"workload", id}, {"why", conf::Std(recorded.message())}});
      co_return again();
    }
  }
  if (workloads_.Find(id)->version != version) co_return;
  workloads_.Settle(*workloads_.Find(id));
  if (workloads_.Find(id) != nullptr) co_return;
  if (const absl::Status removed = co_await context_.store->Flush(); !removed.ok())
    log::Error("the record of an ended workload is not removed yet",
               {{"workload", id}, {"why", conf::Std(removed.message())}});
}

net::Task<void> StepRunner::ForgetRuns() {
  forgetting_ = true;
  ++under_way_;
  while (!to_forget_.empty() && !closing_) {
    if (!(co_await context_.confirm()).ok()) {
      next_forget_ = context_.now() + kRetry;
      break;
    }
    const std::string run = std::move(to_forget_.back());
    to_forget_.pop_back();
    if (const absl::Status forgotten = co_await context_.launcher->Forget(run); !forgotten.ok())
      log::Warn("run not forgotten", {{"run", run}, {"why", conf::Std(forgotten.message())}});
  }
  --under_way_;
  forgetting_ = false;
}

}  // namespace gateway::control
