#include "plugins/launchers/kubernetes.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/url.h"

namespace plugins::launchers {
namespace {

using gateway::net::Now;
using gateway::net::Task;
using kubernetes::Node;
using kubernetes::Pod;
using kubernetes::Runs;
using kubernetes::Submission;
using nlohmann::json;
using plugins::kubernetes::Request;
using plugins::kubernetes::Watch;

constexpr conf::Duration kCheckEvery = std::chrono::seconds(1);
// While a run starts or stops and its watch says nothing, our pods are asked for this often.
constexpr conf::Duration kAskEvery = std::chrono::seconds(5);
// A list that is older than this is reported as old; a watch's bookmarks come each minute.
constexpr conf::Duration kOldest = std::chrono::seconds(90);
constexpr conf::Duration kLeastGrace = std::chrono::seconds(1);
constexpr conf::Duration kAfterSignal = std::chrono::hours(1);
constexpr size_t kMostLog = 32U << 20;
// Lines of the output that are kept; Kubernetes can cut by bytes from the beginning only.
constexpr int kKeptLines = 5000;
constexpr size_t kMostToKeep = 1000;  // logs that wait to be asked for
constexpr size_t kKeepingAtOnce = 4;  // of them
constexpr conf::Duration kCloseTick = std::chrono::milliseconds(10);

std::string Selector(const std::string& gateway) {
  return "labelSelector=" +
         gateway::net::PercentEncode(fmt::format("{}={}", kubernetes::kGatewayLabel, gateway));
}

std::string NodeSelector(const std::string& labels) {
  return labels.empty() ? "" : "labelSelector=" + gateway::net::PercentEncode(labels);
}

// Pods that are over hold nothing.
std::string NotOver() {
  return "fieldSelector=" +
         gateway::net::PercentEncode("status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!=");
}

// A quota may have room later, and an operator may grant a right: neither is the run's fault.
bool MayPass(const absl::Status& refused) {
  const std::string_view text = conf::Std(refused.message());
  return text.find("exceeded quota") != std::string_view::npos ||
         text.find("cannot create resource") != std::string_view::npos ||
         text.find("being terminated") != std::string_view::npos;
}

// It answered, and made no pod. An answer 5xx says nothing of that.
bool HasAnswered(const absl::Status& refused) {
  return !absl::IsUnavailable(refused) && !absl::IsCancelled(refused);
}

absl::Status WhyNotStarted(const std::string& id, const absl::Status& refused) {
  const std::string text = fmt::format("run {}: {}", id, conf::Std(refused.message()));
  const bool for_ever = absl::IsInvalidArgument(refused) || absl::IsPermissionDenied(refused);
  return for_ever && !MayPass(refused) ? absl::InvalidArgumentError(text) : absl::UnavailableError(text);
}

// Whether the members of a gang find each other by the run's Service.
bool NamesGang(const RunSpec& run) {
  return run.gang.size > 1 && run.gang.rank == 0 && !kubernetes::ServiceOf(run.gang.leader).empty();
}

bool NeedsObjects(const RunSpec& run) {
  return !run.env.empty() || run.weights || NamesGang(run);
}

// The pod that was to be deleted is not there, or another has its name.
bool PodIsGone(const absl::Status& deleted) {
  return absl::IsNotFound(deleted) || absl::IsAborted(deleted);
}

std::string UidOfObject(const json& object) {
  const std::optional<Pod> pod = kubernetes::ReadPod(object);
  return pod ? pod->uid : std::string();
}

}  // namespace

KubernetesLauncher::KubernetesLauncher(gateway::net::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      table_(options_.devices),
      tolerated_(kubernetes::TolerationsOf(options_.pod)),
      client_(loop, options_.access, options_.seed),
      runs_(options_.gateway, options_.ports),
      watch_nodes_(
          loop, client_,
          {.path = "/api/v1/nodes", .query = NodeSelector(options_.node_selector), .seed = options_.seed + 1},
          OfNodes()),
      watch_runs_(loop, client_,
                  {.path = PodsPath(),
                   .query = Selector(options_.gateway),
                   .turn = std::chrono::seconds(30),
                   .seed = options_.seed + 2},
                  OfRuns()),
      watch_others_(loop, client_, {.path = "/api/v1/pods", .query = NotOver(), .seed = options_.seed + 3},
                    OfOthers()),
      expected_(options_.nodes),
      logs_(options_.logs),
      file_turns_(kMostToKeep),
      sleep_(loop.watchdog) {}

KubernetesLauncher::~KubernetesLauncher() = default;

void KubernetesLauncher::Open() {
  open_ = true;
  watch_nodes_.Open();
  watch_runs_.Open();
  watch_others_.Open();
  loop_.tasks.Spawn(Mind());
}

Task<void> KubernetesLauncher::Close() {
  closed_ = true;
  client_.Abort();
  sleep_.Cancel();
  co_await watch_nodes_.Close();
  co_await watch_runs_.Close();
  co_await watch_others_.Close();
  if (open_) co_await stopped_.Wait();
  gateway::net::Sleep tick(loop_.watchdog);
  while (keeping_ > 0) co_await tick.For(kCloseTick);
}

absl::Status KubernetesLauncher::health() const {
  for (const Watch* watch : {&watch_runs_, &watch_nodes_, &watch_others_}) {
    if (!watch->health().ok()) return watch->health();
  }
  return absl::OkStatus();
}

std::string KubernetesLauncher::PodsPath() const {
  return fmt::format("/api/v1/namespaces/{}/pods", options_.name_space);
}

std::string KubernetesLauncher::PodPath(const std::string& id) const {
  return fmt::format("{}/{}", PodsPath(), id);
}

void KubernetesLauncher::Tell() {
  if (closed_) return;
  if (found_is_raised_ && !changed_.empty()) found_is_old_ = shared_is_old_ = true;
  if (std::exchange(shared_is_old_, false)) Share();
  for (const std::string& id : std::exchange(changed_, {})) on_change(id);
}

Watch::Handlers KubernetesLauncher::OfNodes() {
  Watch::Handlers handlers;
  handlers.on_begin = [this] {
    listing_nodes_ = true;
    nodes_named_.clear();
  };
  handlers.on_object = [this](const json& object) {
    std::optional<Node> node = kubernetes::ReadNode(object);
    if (!node) return;
    if (listing_nodes_) nodes_named_.insert(node->name);
    Node& known = nodes_[node->name];
    if (known == *node) return;
    // Its conditions change more often than what it is.
    found_is_old_ |= known.name.empty() || known.labels != node->labels || known.devices != node->devices ||
                     known.cpu_milli != node->cpu_milli || known.memory_mib != node->memory_mib;
    known = *std::move(node);
    shared_is_old_ = true;
  };
  handlers.on_deleted = [this](const json& object) {
    const std::optional<Node> node = kubernetes::ReadNode(object);
    if (node) nodes_.erase(node->name);
    found_is_old_ = shared_is_old_ = true;
  };
  handlers.on_listed = [this] {
    listing_nodes_ = false;
    const size_t gone =
        std::erase_if(nodes_, [this](const auto& node) { return !nodes_named_.contains(node.first); });
    nodes_named_.clear();
    found_is_old_ |= gone > 0;
    shared_is_old_ = true;
  };
  handlers.on_news = [this] { Tell(); };
  return handlers;
}

void KubernetesLauncher::OnRun(const json& object, Runs::Round* round) {
  const std::optional<Pod> pod = kubernetes::ReadPod(object);
  if (!pod) return;
  if (runs_.Apply(*pod, Now(), round)) changed_.insert(pod->name);
  shared_is_old_ |= !runs_.leftovers().empty();
  const Runs::Run* const run = runs_.Find(pod->name);
  if (run != nullptr && run->uid == pod->uid && pod->terminated && read_to_end_.insert(pod->name).second)
    KeepLogSoon(pod->name);
  // It was to stop before its creation was answered, or was given up with its node.
  const bool unwanted = run != nullptr && run->uid == pod->uid && !pod->deleting && !pod->over() &&
                        (run->doomed || !run->ended_by_us.empty());
  if (unwanted && ending_.insert(pod->name).second) loop_.tasks.Spawn(EndPod(pod->name, pod->uid));
}

Watch::Handlers KubernetesLauncher::OfRuns() {
  Watch::Handlers handlers;
  handlers.on_begin = [this] { round_ = runs_.Begin(); };
  handlers.on_object = [this](const json& object) { OnRun(object, &round_); };
  handlers.on_deleted = [this](const json& object) {
    const std::optional<Pod> pod = kubernetes::ReadPod(object);
    if (!pod) return;
    shared_is_old_ |= !runs_.leftovers().empty();
    if (runs_.Deleted(*pod, Now())) changed_.insert(pod->name);
  };
  handlers.on_listed = [this] {
    for (std::string& id : runs_.Listed(round_, Now())) changed_.insert(std::move(id));
    shared_is_old_ |= !shared_known_;
  };
  handlers.on_news = [this] { Tell(); };
  return handlers;
}

void KubernetesLauncher::OnOther(const json& object, bool deleted) {
  const std::optional<Pod> pod = kubernetes::ReadPod(object);
  if (!pod || runs_.IsOurs(*pod)) return;
  if (listing_others_) others_named_.insert(pod->uid);
  Other other{.node = pod->node};
  if (!deleted && !pod->over() && !pod->node.empty()) other.taken = table_.TakenBy(*pod);
  const auto known = others_.find(pod->uid);
  if (known == others_.end() ? other.taken.none() : known->second == other) return;
  if (known != others_.end()) ForgetOther(known);
  if (!other.taken.none()) {
    taken_by_others_[other.node].Add(other.taken);
    others_[pod->uid] = std::move(other);
  }
  shared_is_old_ = true;
}

std::map<std::string, KubernetesLauncher::Other>::iterator KubernetesLauncher::ForgetOther(
    std::map<std::string, Other>::iterator known) {
  const auto on_node = taken_by_others_.find(known->second.node);
  on_node->second.Remove(known->second.taken);
  if (on_node->second.none()) taken_by_others_.erase(on_node);
  return others_.erase(known);
}

Watch::Handlers KubernetesLauncher::OfOthers() {
  Watch::Handlers handlers;
  handlers.on_begin = [this] {
    listing_others_ = true;
    others_named_.clear();
  };
  handlers.on_object = [this](const json& object) { OnOther(object, false); };
  handlers.on_deleted = [this](const json& object) { OnOther(object, true); };
  handlers.on_listed = [this] {
    listing_others_ = false;
    for (auto other = others_.begin(); other != others_.end();)
      other = others_named_.contains(other->first) ? std::next(other) : ForgetOther(other);
    others_named_.clear();
    shared_is_old_ = true;
  };
  handlers.on_news = [this] { Tell(); };
  return handlers;
}

// The devices of runs are there, also while the node's device plugin does not show them.
void KubernetesLauncher::FindCluster() {
  if (!options_.discovery || !std::exchange(found_is_old_, false)) return;
  std::map<std::string, kubernetes::HeldOnNode> held;
  for (const RunStatus& run : runs_.List()) {
    if (run.state == RunState::kEnded || run.grant.node.empty() || run.grant.devices.empty()) continue;
    kubernetes::HeldOnNode& on = held[run.grant.node];
    on.kind = run.grant.kind;
    on.devices = std::max(on.devices, std::ranges::max(run.grant.devices) + uint32_t{1});
  }
  kubernetes::Discovered seen = kubernetes::Discover(nodes_, held, table_, *options_.discovery);
  expected_ = kubernetes::ExpectedOf(seen.cluster);
  found_.cluster = std::move(seen.cluster);
  ++found_.version;
  found_left_out_ = std::move(seen.left_out);
  found_is_raised_ = seen.raised;
}

void KubernetesLauncher::Share() {
  if (!watch_nodes_.listed() || !watch_others_.listed()) return;
  // Before, what our runs hold is not known.
  if (options_.discovery && !watch_runs_.listed()) return;
  FindCluster();
  std::map<std::string, kubernetes::Taken> taken = taken_by_others_;
  for (const auto& [name, pod] : runs_.leftovers()) taken[pod.node].Add(table_.TakenBy(pod));
  SharedCluster seen = kubernetes::Share(nodes_, taken, expected_, table_, tolerated_);
  seen.left_out.insert(seen.left_out.end(), found_left_out_.begin(), found_left_out_.end());
  if (shared_known_ && seen.nodes == shared_.nodes && seen.left_out == shared_.left_out) return;
  seen.version = shared_.version + 1;
  shared_ = std::move(seen);
  shared_known_ = true;
}

Task<void> KubernetesLauncher::Mind() {
  while (!closed_) {
    CheckLate();
    const bool silent = Now() - watch_runs_.heard_at() >= kAskEvery;
    const bool asks = (silent && runs_.Moving()) || runs_.AnyUnanswered();
    if (asks && watch_runs_.listed() && Now() - refreshed_at_ >= kAskEvery) {
      refreshed_at_ = Now();
      (co_await Refresh()).IgnoreError();  // the watch's health reports a failure
    }
    if (closed_) break;
    Tell();
    co_await sleep_.For(kCheckEvery);
  }
  stopped_.Set();
}

Task<absl::Status> KubernetesLauncher::Refresh() {
  Runs::Round round = runs_.Begin();
  Request request{.path = PodsPath(), .query = Selector(options_.gateway)};
  const absl::StatusOr<std::string> body = co_await client_.Ask(std::move(request));
  if (!body.ok()) co_return body.status();
  if (closed_) co_return absl::CancelledError();
  const absl::StatusOr<plugins::kubernetes::Page> page =
      plugins::kubernetes::ReadPage(*body, [&](const json& object) { OnRun(object, &round); });
  if (!page.ok()) co_return page.status();
  for (std::string& id : runs_.Listed(round, Now())) changed_.insert(std::move(id));
  refreshed_at_ = Now();
  Tell();
  co_return absl::OkStatus();
}

// Pods that are not bound in time, and runs on nodes that do not come back.
void KubernetesLauncher::CheckLate() {
  if (!watch_runs_.listed() || !watch_runs_.health().ok()) return;
  const conf::TimePoint now = Now();
  for (const auto& [id, run] : runs_.all()) {
    if (run.status.state == RunState::kEnded || run.uid.empty() || run.gone) continue;
    std::string why;
    conf::TimePoint ended = now;
    if (!run.unbound.empty()) {
      if (now - run.created < options_.start_within) continue;
      why = fmt::format("Kubernetes did not place its pod within {}",
                        conf::FormatDuration(options_.start_within));
      if (run.unbound != "-") why += ": " + run.unbound;
    } else {
      const auto node = nodes_.find(run.node);
      if (node == nodes_.end() || node->second.ready == "True" || !watch_nodes_.health().ok()) continue;
      if (node->second.ready != "Unknown" || now - node->second.ready_since < options_.lost_after) continue;
      why = fmt::format("its node {} is lost: {}", run.node, kubernetes::WhyNot(node->second, tolerated_));
      ended = node->second.ready_since;
    }
    runs_.End(id, std::move(why), ended);
    changed_.insert(id);
    if (ending_.insert(id).second) loop_.tasks.Spawn(EndPod(id, run.uid));
  }
}

void KubernetesLauncher::KeepLogSoon(const std::string& id) {
  if (options_.logs.empty() || closed_) return;
  if (to_keep_.size() >= kMostToKeep) return options_.on_log_lost(id, "too many logs wait to be kept");
  to_keep_.push_back(id);
  if (keeping_ >= kKeepingAtOnce) return;
  ++keeping_;
  loop_.tasks.Spawn(KeepLogs());
}

Task<void> KubernetesLauncher::KeepLogs() {
  while (!to_keep_.empty() && !closed_) {
    const std::string id = std::move(to_keep_.front());
    to_keep_.pop_front();
    const absl::Status kept = co_await KeepLog(id);
    if (!kept.ok() && !closed_) options_.on_log_lost(id, conf::Std(kept.message()));
  }
  --keeping_;
}

// Best effort: a pod that is deleted takes its output along when its container has ended.
Task<absl::Status> KubernetesLauncher::KeepLog(std::string id) {
  Request request{.path = PodPath(id) + "/log",
                  .query = fmt::format("container={}&tailLines={}", kubernetes::kContainer, kKeptLines),
                  .keep_end = KeptLogs::kBytes + 1};
  const uint64_t number = ++log_requests_;
  const absl::StatusOr<std::string> text = co_await client_.Ask(std::move(request));
  // Its container never ran, or the pod is gone.
  if (absl::IsInvalidArgument(text.status()) || absl::IsNotFound(text.status())) co_return absl::OkStatus();
  if (!text.ok()) co_return text.status();
  if (text->empty()) co_return absl::OkStatus();
  if (!co_await file_turns_.Lock()) co_return absl::UnavailableError("too many logs wait to be written");
  absl::Status written = absl::OkStatus();
  // It may have been forgotten meanwhile, or a later answer came first.
  const auto kept = kept_.find(id);
  if (runs_.Find(id) != nullptr && (kept == kept_.end() || kept->second < number)) {
    kept_[id] = number;
    written = co_await gateway::net::OffLoop(loop_, [&] { return logs_.Keep(id, *text); });
  }
  file_turns_.Unlock();
  co_return written;
}

Task<void> KubernetesLauncher::EndPod(std::string id, std::string uid) {
  const absl::Status deleted = co_await DeletePod(id, std::move(uid), kLeastGrace);
  // On the next news of the pod it is tried again.
  ending_.erase(id);
  deleted.IgnoreError();
}

Task<absl::Status> KubernetesLauncher::DeletePod(std::string id, std::string uid, conf::Duration grace) {
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::max<conf::Duration>(grace, kLeastGrace)).count();
  json options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"gracePeriodSeconds", seconds}};
  if (!uid.empty()) options["preconditions"] = {{"uid", std::move(uid)}};
  co_return (co_await client_.Delete(PodPath(id), std::move(options))).status();
}

std::string KubernetesLauncher::AddressOf(const std::string& id, const std::string& node) const {
  if (!kubernetes::UsesHostNetwork(options_.pod, json::object()))
    return kubernetes::GangAddress(id, options_.name_space);
  return NodeAddress(node);
}

std::string KubernetesLauncher::NodeAddress(const std::string& node) const {
  const auto known = nodes_.find(node);
  return known == nodes_.end() || known->second.address.empty() ? node : known->second.address;
}

absl::StatusOr<Submission> KubernetesLauncher::Compose(const RunSpec& spec, const Node& node) const {
  Submission submission;
  submission.run = spec;
  submission.gateway = options_.gateway;
  submission.name_space = options_.name_space;
  submission.bind = options_.bind;
  submission.node_address = node.address.empty() ? node.name : node.address;
  submission.pull_policy = options_.pull_policy;
  submission.pull_secrets = options_.pull_secrets;
  submission.defaults = options_.pod;
  submission.safe_tenants = options_.safe_tenants;
  submission.count = static_cast<uint32_t>(spec.grant.devices.size());
  if (submission.count > 0) {
    submission.resource = spec.grant.partition.empty()
                              ? table_.ResourceOf(node, spec.grant.kind)
                              : std::string(kubernetes::kMigPrefix) + spec.grant.partition;
    const auto has = node.devices.find(submission.resource);
    if (has == node.devices.end() || has->second < submission.count) {
      return absl::InvalidArgumentError(
          fmt::format("run {}: node {} of Kubernetes has no {} devices of kind {}{}{}", spec.id, node.name,
                      submission.count, spec.grant.kind, spec.grant.partition.empty() ? "" : ", partition ",
                      spec.grant.partition));
    }
  }
  if (spec.serves) {
    const json piece = spec.pod.empty() ? json::object() : conf::ParseJson(spec.pod);
    submission.port = kubernetes::UsesHostNetwork(options_.pod, piece)
                          ? runs_.PickPort(spec.id, submission.node_address)
                          : options_.ports.first;
    if (submission.port == 0) {
      return absl::UnavailableError(fmt::format("run {}: every port from {} to {} is in use on {}", spec.id,
                                                options_.ports.first, options_.ports.last, node.name));
    }
  }
  return submission;
}

Task<absl::Status> KubernetesLauncher::CreatePod(const Submission& submission) {
  const std::string& id = submission.run.id;
  absl::StatusOr<json> created = co_await client_.Create(PodsPath(), kubernetes::RenderPod(submission));
  if (absl::IsAlreadyExists(created.status())) {
    created = co_await client_.Get(PodPath(id));
    // It is there, or was a moment ago.
    if (!created.ok()) {
      runs_.Unanswered(id);
      co_return absl::UnavailableError(fmt::format("run {}: {}", id, conf::Std(created.status().message())));
    }
    if (const std::optional<Pod> pod = kubernetes::ReadPod(*created)) {
      const std::optional<kubernetes::Mark> mark = kubernetes::ReadMark(pod->mark);
      if (!runs_.IsOurs(*pod) || !mark || mark->id != id) {
        runs_.NotOurs(id);
        co_return absl::FailedPreconditionError(fmt::format(
            "run {}: namespace {} has a pod of that name, which is not ours", id, options_.name_space));
      }
    }
  }
  if (created.ok()) {
    runs_.Created(id, UidOfObject(*created), !NeedsObjects(submission.run));
    OnRun(*created, nullptr);
    co_return absl::OkStatus();
  }
  if (HasAnswered(created.status())) {
    runs_.Refused(id);
  } else {
    runs_.Unanswered(id);
  }
  co_return WhyNotStarted(id, created.status());
}

// The environment, and the names of a gang.
Task<absl::Status> KubernetesLauncher::Equip(const Submission& submission, std::string uid) {
  const RunSpec& run = submission.run;
  const std::string home = fmt::format("/api/v1/namespaces/{}", options_.name_space);
  absl::Status status = absl::OkStatus();
  if (!run.env.empty())
    status = (co_await client_.Create(home + "/secrets", kubernetes::RenderSecret(submission, uid))).status();
  if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
  if (status.ok() && run.weights) {
    status = (co_await client_.Create(home + "/secrets", kubernetes::RenderWeightsSecret(submission, uid)))
                 .status();
    if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
  }
  if (status.ok() && NamesGang(run)) {
    status =
        (co_await client_.Create(home + "/services", kubernetes::RenderService(submission, uid))).status();
    if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
  }
  if (status.ok()) {
    runs_.Equipped(run.id);
    co_return status;
  }
  co_return WhyNotStarted(run.id, status);
}

Task<absl::Status> KubernetesLauncher::Start(RunSpec spec) {
  const Runs::Run* run = runs_.Find(spec.id);
  const bool whole = run != nullptr && !run->asked && run->equipped && !run->waits_for_environment;
  if (run != nullptr && (whole || run->status.state == RunState::kEnded)) co_return absl::OkStatus();
  if (!watch_runs_.listed() || !watch_nodes_.listed()) {
    const absl::Status why = health();
    co_return absl::UnavailableError(why.ok() ? "the pods and nodes of Kubernetes are still being listed"
                                              : why.message());
  }
  const auto node = nodes_.find(spec.grant.node);
  if (node == nodes_.end()) {
    co_return absl::InvalidArgumentError(
        fmt::format("run {}: Kubernetes has no node {}", spec.id, spec.grant.node));
  }
  absl::StatusOr<Submission> submission = Compose(spec, node->second);
  if (!submission.ok()) co_return submission.status();
  // Its pod may be there, with the port of the first try.
  if (run != nullptr && spec.serves && run->status.port != 0) submission->port = run->status.port;
  if (const std::string defect = kubernetes::FirstDefect(*submission); !defect.empty())
    co_return absl::InvalidArgumentError(defect);
  if (run == nullptr || run->asked) {
    const bool host = kubernetes::UsesHostNetwork(
        options_.pod, spec.pod.empty() ? json::object() : conf::ParseJson(spec.pod));
    if (run == nullptr) {
      runs_.Ask(spec, host ? submission->node_address : "", submission->port, host, !NeedsObjects(spec),
                Now());
    } else {
      runs_.AskAgain(spec.id);
    }
    if (absl::Status created = co_await CreatePod(*submission); !created.ok()) co_return created;
    run = runs_.Find(spec.id);
    if (run == nullptr) co_return absl::OkStatus();  // forgotten meanwhile
  }
  co_return co_await Equip(*submission, run->uid);
}

Task<absl::Status> KubernetesLauncher::Stop(std::string id, conf::Duration grace) {
  if (!watch_runs_.listed()) co_return absl::UnavailableError(health().message());
  const Runs::Run* run = runs_.Find(id);
  if (run == nullptr || run->status.state == RunState::kEnded) co_return absl::OkStatus();
  const std::string uid = run->uid;
  const absl::Status deleted = co_await DeletePod(id, uid, grace);
  if (!PodIsGone(deleted) && !deleted.ok()) co_return absl::UnavailableError(deleted.message());
  runs_.ToldToStop(id, Now());
  // Without a pod there will be no news of it. One that is created late is deleted when it is seen.
  run = runs_.Find(id);
  if (absl::IsNotFound(deleted) && run != nullptr && run->uid.empty()) {
    runs_.End(id, "", Now());
    changed_.insert(id);
    co_return absl::OkStatus();
  }
  KeepLogSoon(id);
  co_return absl::OkStatus();
}

Task<absl::Status> KubernetesLauncher::Signal(std::string id, int signal) {
  const Runs::Run* const run = runs_.Find(id);
  const bool runs =
      run != nullptr && (run->status.state == RunState::kRunning || run->status.state == RunState::kStopping);
  if (!runs) co_return absl::NotFoundError(fmt::format("run {} does not run", id));
  if (signal != SIGTERM) {
    co_return absl::UnimplementedError(fmt::format(
        "run {}: Kubernetes sends no signal but SIGTERM: give the job checkpoint.signal: TERM", id));
  }
  const absl::Status sent = co_await DeletePod(id, run->uid, kAfterSignal);
  if (PodIsGone(sent)) co_return absl::OkStatus();
  if (!sent.ok()) co_return absl::UnavailableError(sent.message());
  runs_.Signalled(id);
  KeepLogSoon(id);
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::vector<RunStatus>>> KubernetesLauncher::List() {
  const bool old = Now() - std::max(watch_runs_.heard_at(), refreshed_at_) > kOldest;
  if (!watch_runs_.listed() || !watch_runs_.health().ok() || old) {
    if (!watch_runs_.listed()) co_return absl::UnavailableError(watch_runs_.health().message());
    if (absl::Status status = co_await Refresh(); !status.ok())
      co_return absl::UnavailableError(status.message());
  }
  const conf::TimePoint heard = std::max(watch_runs_.heard_at(), refreshed_at_);
  std::vector<RunStatus> all = runs_.List();
  std::erase_if(all, [this](const RunStatus& status) { return runs_.Find(status.id)->half_started(); });
  for (RunStatus& status : all) {
    if (!status.started || status.state == RunState::kEnded) continue;
    const auto node = nodes_.find(runs_.Find(status.id)->node);
    const bool answers = node == nodes_.end() || node->second.ready == "True";
    status.alive = std::max(answers ? heard : node->second.ready_since, *status.started);
  }
  co_return all;
}

Task<absl::Status> KubernetesLauncher::Forget(std::string id) {
  const Runs::Run* const run = runs_.Find(id);
  if (run != nullptr && run->status.state != RunState::kEnded)
    co_return absl::FailedPreconditionError(fmt::format("run {} has not ended", id));
  if (run != nullptr && !run->gone) {
    const absl::Status deleted = co_await DeletePod(id, run->uid, kLeastGrace);
    if (!PodIsGone(deleted) && !deleted.ok()) co_return absl::UnavailableError(deleted.message());
  }
  runs_.Forget(id);
  read_to_end_.erase(id);
  kept_.erase(id);
  if (options_.logs.empty()) co_return absl::OkStatus();
  // A run of an earlier gateway may have a file, too.
  if (!co_await file_turns_.Lock()) co_return absl::UnavailableError("too many logs are being written");
  const absl::Status removed = co_await gateway::net::OffLoop(loop_, [&] { return logs_.Remove(id); });
  file_turns_.Unlock();
  co_return removed.ok() ? removed : absl::UnavailableError(removed.message());
}

Task<absl::StatusOr<std::string>> KubernetesLauncher::ReadLog(std::string id) {
  const Runs::Run* const run = runs_.Find(id);
  if (run == nullptr || run->gone) {
    if (!options_.logs.empty()) {
      absl::StatusOr<std::string> kept =
          co_await gateway::net::OffLoop(loop_, [&] { return logs_.Read(id); });
      if (kept.ok()) co_return kept;
    }
    co_return absl::NotFoundError(fmt::format("the pod of run {} is gone, and its output with it", id));
  }
  const bool fetches = run->fetches;
  Request request{.path = PodPath(id) + "/log",
                  .query = fmt::format("container={}", kubernetes::kContainer),
                  .max_answer = kMostLog};
  absl::StatusOr<std::string> text = co_await client_.Ask(std::move(request));
  // The output of the step before the run comes first.
  if (fetches) {
    Request of_step{.path = PodPath(id) + "/log",
                    .query = fmt::format("container={}", kubernetes::kWeightsContainer),
                    .max_answer = kMostLog};
    const absl::StatusOr<std::string> step = co_await client_.Ask(std::move(of_step));
    if (step.ok()) co_return *step + (text.ok() ? *text : std::string());
  }
  if (absl::IsInvalidArgument(text.status()) || absl::IsNotFound(text.status()))
    co_return absl::NotFoundError(
        fmt::format("run {} has no output: {}", id, conf::Std(text.status().message())));
  co_return text;
}

// In a network of its own no other process can take its port.
Task<absl::Status> KubernetesLauncher::CheckPort(std::string id) {
  const Runs::Run* const run = runs_.Find(id);
  if (run != nullptr && !run->host_network && !run->uid.empty()) co_return absl::OkStatus();
  co_return absl::UnimplementedError("cannot determine which process listens on this port");
}

}  // namespace plugins::launchers
