#include "gateway/process/reloads.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "gateway/config/sources.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "plugins/auth/digest.h"

namespace gateway {
namespace {

constexpr size_t kMaxWaiting = 16;

absl::Status Stopping() {
  return absl::FailedPreconditionError("the gateway is stopping");
}

}  // namespace

Reloads::Reloads(net::Loop& control, std::string config_path, Replace replace, Record record)
    : control_(control),
      config_path_(std::move(config_path)),
      replace_(std::move(replace)),
      record_(std::move(record)),
      turns_(kMaxWaiting) {}

void Reloads::Start(std::string actor) {
  control_.tasks.Spawn([](Reloads& reloads, std::string who) -> net::Task<void> {
    (co_await reloads.Reload(std::move(who))).IgnoreError();
  }(*this, std::move(actor)));
}

net::Task<absl::Status> Reloads::Reload(std::string actor) {
  if (stopping_) co_return Stopping();
  ++under_way_;
  absl::Status reloaded = api::WithCode(
      absl::ResourceExhaustedError(fmt::format("{} reloads wait already; try again later", kMaxWaiting)),
      api::Code::kTooManyReloads);
  if (co_await turns_.Lock()) {
    reloaded = co_await InTurn(std::move(actor));
    turns_.Unlock();
  }
  --under_way_;
  co_return reloaded;
}

net::Task<absl::Status> Reloads::InTurn(std::string actor) {
  if (stopping_) co_return Stopping();
  Offered offered;
  const absl::Status reloaded = co_await LoadAndReplace(actor, offered);
  if (!reloaded.ok()) RecordRefusal(actor, offered);
  ++(reloaded.ok() ? state_.applied : state_.refused);
  state_.last_ok = reloaded.ok();
  state_.last_at = net::Now();
  state_.why = std::string(conf::Std(reloaded.message()));
  co_return reloaded;
}

LoadResult Reloads::Load(Offered& offered) const {
  conf::Sources sources = SystemSources();
  sources.file = [&, read = sources.file](const std::string& path) {
    auto text = read(path);
    if (text.ok() && path == config_path_) offered.file_sha256 = conf::Hex(plugins::auth::Sha256(*text));
    return text;
  };
  return LoadConfig(config_path_, sources);
}

net::Task<absl::Status> Reloads::LoadAndReplace(std::string_view actor, Offered& offered) {
  LoadResult loaded = Load(offered);
  if (!loaded.config) {
    offered.problems = loaded.problems.size();
    std::string all;
    for (const conf::Problem& problem : loaded.problems)
      all.append(all.empty() ? "" : "\n").append(ToString(problem));
    log::Error("configuration refused; the running one stays", {{"problems", all}});
    co_return absl::InvalidArgumentError(conf::Abseil(all));
  }
  absl::Status replaced = co_await replace_(*std::move(loaded.config), actor);
  if (!replaced.ok()) {
    log::Error("configuration refused; the running one stays", {{"why", conf::Std(replaced.message())}});
  }
  co_return replaced;
}

// Names the actor and the file, never its contents.
void Reloads::RecordRefusal(std::string_view actor, const Offered& offered) {
  nlohmann::json detail = {{"problems", offered.problems}};
  if (!offered.file_sha256.empty()) detail["file_sha256"] = offered.file_sha256;
  ledger::Event event;
  event.kind = ledger::Kind::kConfig;
  event.action = "refused";
  event.actor = actor;
  event.subject = config_path_;
  event.detail = detail.dump();
  record_(std::move(event));
}

}  // namespace gateway
