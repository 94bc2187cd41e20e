#include "plugins/launchers/kubernetes/manifest.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "conf/hex.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "plugins/auth/digest.h"
#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/weights/order.h"

namespace plugins::launchers::kubernetes {
namespace {

using nlohmann::json;

constexpr size_t kMostName = 63;
constexpr int64_t kNobody = 65532;  // the user "nonroot" of many base images
constexpr std::string_view kPodIp = "TIDEGATE_POD_IP";
constexpr std::string_view kOrderKey = "order";  // of the Secret for weights

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Any text in the characters that a label may have; the mark has the exact text.
std::string LabelOf(std::string_view text) {
  std::string label(text.substr(0, kMostName));
  for (char& c : label) {
    if (!IsLetterOrDigit(c) && c != '-' && c != '_' && c != '.') c = '_';
  }
  while (!label.empty() && !IsLetterOrDigit(label.back())) label.pop_back();
  const size_t first = static_cast<size_t>(std::ranges::find_if(label, IsLetterOrDigit) - label.begin());
  return label.substr(first);
}

// The host name of a pod: a label of DNS.
std::string HostName(const std::string& id) {
  std::string name = id.substr(0, kMostName);
  std::ranges::replace(name, '.', '-');
  return name;
}

std::string GangOf(const std::string& leader) {
  constexpr size_t kBytes = 10;
  const auth::Digest digest = auth::Sha256(leader);
  return "gang-" + conf::Hex(std::span(digest).first(kBytes));
}

// Kubernetes would replace $(NAME) in a command; "$$(" is "$(" to it.
std::string Literal(std::string_view word) {
  return absl::StrReplaceAll(conf::Abseil(word), {{"$(", "$$("}});
}

// Empty: it has none that is a text.
std::string NameOf(const json& item) {
  const bool named = item.is_object() && item.contains("name") && item["name"].is_string();
  return named ? item["name"].get<std::string>() : std::string();
}

bool HasNames(const json& list) {
  return list.is_array() && !list.empty() && std::ranges::all_of(list, [](const json& item) {
           return item.is_object() && item.contains("name") && item["name"].is_string();
         });
}

// The fields by which Kubernetes distinguishes the members of that list; null: there are none.
json IdentityOf(std::string_view list, const json& item) {
  const auto at = [&item](const char* key) { return item.contains(key) ? item[key] : json(); };
  if (!item.is_object()) return {};
  if (list == "volumeMounts") return at("mountPath");
  if (list != "ports") return at("name");
  if (!item.contains("containerPort")) return {};
  return json::array({at("containerPort"), item.contains("protocol") ? item["protocol"] : json("TCP")});
}

bool HasIdentities(std::string_view list, const json& items) {
  return items.is_array() && !items.empty() &&
         std::ranges::none_of(items, [&](const json& item) { return IdentityOf(list, item).is_null(); });
}

json* Same(std::string_view list, json& items, const json& item) {
  const json identity = IdentityOf(list, item);
  const auto same =
      std::ranges::find_if(items, [&](const json& one) { return IdentityOf(list, one) == identity; });
  return same == items.end() ? nullptr : &*same;
}

// `base`, which has the name `list` where it is a list.
void MergeAt(std::string_view list, json& base, const json& piece) {
  if (base.is_object() && piece.is_object()) {
    for (const auto& [key, value] : piece.items()) {
      if (base.contains(key)) {
        MergeAt(key, base[key], value);
      } else {
        base[key] = value;
      }
    }
  } else if (HasIdentities(list, base) && HasIdentities(list, piece)) {
    for (const json& item : piece) {
      if (json* const same = Same(list, base, item)) {
        // A variable's value is one or the other.
        if (item.contains("value") || item.contains("valueFrom")) {
          *same = item;
        } else {
          MergeAt({}, *same, item);
        }
      } else {
        base.push_back(item);
      }
    }
  } else {
    base = piece;
  }
}

const json* ContainerOf(const json& piece) {
  if (!piece.is_object() || !piece.contains("containers") || !piece["containers"].is_array()) return nullptr;
  for (const json& item : piece["containers"]) {
    if (item.is_object() && item.contains("name") && item["name"] == kContainer) return &item;
  }
  return nullptr;
}

bool IsTrueAt(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key] == true;
}

json PieceOf(const RunSpec& run) {
  json piece = run.pod.empty() ? json::object() : conf::ParseJson(run.pod);
  return piece.is_object() ? piece : json::object();
}

bool IsInHostNetwork(const Submission& submission) {
  return UsesHostNetwork(submission.defaults, PieceOf(submission.run));
}

json OwnedBy(const Submission& submission, const std::string& uid, std::string name) {
  return {
      {"name", std::move(name)},
      {"namespace", submission.name_space},
      {"labels",
       {{"app.kubernetes.io/managed-by", "tidegate"}, {kGatewayLabel, LabelOf(submission.gateway)}}},
      {"ownerReferences",
       json::array({{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", submission.run.id}, {"uid", uid}}})}};
}

json ResourcesOf(const Submission& submission) {
  json limits = json::object();
  json requests = json::object();
  const DeviceGrant& grant = submission.run.grant;
  if (submission.count > 0) {
    limits[submission.resource] = std::to_string(submission.count);
    requests[submission.resource] = std::to_string(submission.count);
  }
  if (grant.cpu_milli > 0) requests["cpu"] = fmt::format("{}m", grant.cpu_milli);
  if (grant.memory_mib > 0) {
    requests["memory"] = fmt::format("{}Mi", grant.memory_mib);
    limits["memory"] = requests["memory"];
  }
  json resources = json::object();
  if (!limits.empty()) resources["limits"] = std::move(limits);
  if (!requests.empty()) resources["requests"] = std::move(requests);
  return resources;
}

constexpr std::string_view kWeightsVolume = "tidegate-weights";

std::string WeightsSecretOf(const RunSpec& run) {
  return run.id + "-weights";
}

json SafeContainer(std::string_view name, const std::string& image, json command) {
  return {{"name", name},
          {"image", image},
          {"command", std::move(command)},
          {"securityContext",
           {{"readOnlyRootFilesystem", true},
            {"allowPrivilegeEscalation", false},
            {"capabilities", {{"drop", {"ALL"}}}}}},
          {"volumeMounts", json::array({{{"name", "tmp"}, {"mountPath", "/tmp"}}})}};
}

json OrderVariable(const RunSpec& run) {
  return json::array(
      {{{"name", weights::kOrderVariable},
        {"valueFrom", {{"secretKeyRef", {{"name", WeightsSecretOf(run)}, {"key", kOrderKey}}}}}}});
}

// The node's store, the container that fills it, and the one that keeps the weights from leaving it. The run
// itself reads them, and may write to its compile cache.
void AddWeights(const Submission& submission, json& spec) {
  const RunSpec& run = submission.run;
  const WeightsStep& step = *run.weights;
  json volume = {{"name", kWeightsVolume}};
  if (step.claim.empty()) {
    volume["hostPath"] = {{"path", step.store}, {"type", "DirectoryOrCreate"}};
  } else {
    volume["persistentVolumeClaim"] = {{"claimName", step.claim}};
  }
  spec["volumes"].push_back(std::move(volume));
  const json store = {{"name", kWeightsVolume}, {"mountPath", step.store}};
  const std::string program = step.program.empty() ? "tidegate" : step.program;
  json& container = spec["containers"][0];
  if (run.command.empty()) {  // the fetch is all of it
    container["env"].push_back(OrderVariable(run)[0]);
    container["volumeMounts"].push_back(store);
    return;
  }
  json fetch = SafeContainer(kWeightsContainer, step.image, json::array({program, "weights", "fetch"}));
  fetch["env"] = OrderVariable(run);
  fetch["terminationMessagePolicy"] = "FallbackToLogsOnError";
  fetch["volumeMounts"].push_back(store);
  json hold_command =
      json::array({program, "weights", "hold", "--store", step.store, "--digest", step.digest});
  for (const std::string& also : step.also) {
    hold_command.push_back("--digest");
    hold_command.push_back(also);
  }
  if (!step.cache_key.empty()) {
    hold_command.push_back("--cache");
    hold_command.push_back(step.cache_key);
  }
  json hold = SafeContainer(kWeightsHolder, step.image, std::move(hold_command));
  hold["restartPolicy"] = "Always";  // of an init container: it runs beside the others, and ends after them
  hold["volumeMounts"].push_back(store);
  for (json* const one : {&fetch, &hold}) {
    if (!submission.pull_policy.empty()) (*one)["imagePullPolicy"] = submission.pull_policy;
  }
  spec["initContainers"] = json::array({std::move(fetch), std::move(hold)});
  container["volumeMounts"].push_back(
      {{"name", kWeightsVolume}, {"mountPath", step.store}, {"readOnly", true}});
  if (!step.cache.empty()) {
    container["volumeMounts"].push_back(
        {{"name", kWeightsVolume}, {"mountPath", step.cache}, {"subPath", "cache-" + step.cache_key}});
  }
}

json BasePod(const Submission& submission) {
  const RunSpec& run = submission.run;
  const bool host = IsInHostNetwork(submission);
  const ListenAt at{.host = host ? submission.node_address : fmt::format("\x01({})", kPodIp),
                    .port = submission.port};
  json command = json::array();
  if (run.command.empty() && run.weights)
    command = {run.weights->program.empty() ? "tidegate" : run.weights->program, "weights", "fetch"};
  for (const std::string& word : run.command) {
    // The address of a pod is not known before it runs: Kubernetes fills it in.
    command.push_back(absl::StrReplaceAll(FillPlaceholders(Literal(word), run, at), {{"\x01", "$"}}));
  }
  json env =
      json::array({{{"name", kPodIp}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}}});
  const bool has_home = std::ranges::any_of(run.env, [](const auto& one) { return one.first == "HOME"; });
  if (!has_home) env.push_back({{"name", "HOME"}, {"value", "/tmp"}});
  json container = SafeContainer(kContainer, run.image, std::move(command));
  container["env"] = std::move(env);
  if (!run.env.empty()) container["envFrom"] = json::array({{{"secretRef", {{"name", run.id}}}}});
  if (!run.directory.empty()) container["workingDir"] = run.directory;
  if (!submission.pull_policy.empty()) container["imagePullPolicy"] = submission.pull_policy;
  if (submission.port > 0)
    container["ports"] = json::array({{{"name", "serve"}, {"containerPort", submission.port}}});
  json spec = {{"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"securityContext",
                {{"runAsNonRoot", true},
                 {"runAsUser", kNobody},
                 {"runAsGroup", kNobody},
                 {"fsGroup", kNobody},
                 {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"volumes", json::array({{{"name", "tmp"}, {"emptyDir", json::object()}}})},
               {"containers", json::array({std::move(container)})}};
  if (run.weights) AddWeights(submission, spec);
  if (host) spec["dnsPolicy"] = "ClusterFirstWithHostNet";
  if (!submission.pull_secrets.empty()) {
    spec["imagePullSecrets"] = json::array();
    for (const std::string& name : submission.pull_secrets)
      spec["imagePullSecrets"].push_back({{"name", name}});
  }
  return spec;
}

// Sets the fields that no piece may change.
void SetOwn(const Submission& submission, json& spec) {
  const RunSpec& run = submission.run;
  spec["restartPolicy"] = "Never";  // a restart is another run
  if (submission.bind == Binding::kDirect) {
    spec["nodeName"] = run.grant.node;
  } else {
    const json term = {{"matchFields", json::array({{{"key", "metadata.name"},
                                                     {"operator", "In"},
                                                     {"values", json::array({run.grant.node})}}})}};
    spec["affinity"]["nodeAffinity"] = {
        {"requiredDuringSchedulingIgnoredDuringExecution", {{"nodeSelectorTerms", json::array({term})}}}};
  }
  if (run.gang.size > 1) {
    spec["hostname"] = HostName(run.id);
    if (const std::string service = ServiceOf(run.gang.leader); !service.empty()) spec["subdomain"] = service;
  }
  json* const container = Same("containers", spec["containers"], {{"name", kContainer}});
  json resources = ResourcesOf(submission);
  if (!resources.empty()) Merge((*container)["resources"], resources);
}

struct Forbidden {
  std::string_view key;
  std::string_view why;
};

constexpr std::array<Forbidden, 6> kOwnOfPod = {
    {{"nodeName", "is set by Tidegate: the planner chooses the node"},
     {"affinity", "is set by Tidegate: the planner chooses the node"},
     {"restartPolicy", "is Never: Tidegate starts a new run after one that ended"},
     {"hostname", "is set by Tidegate for the members of a gang"},
     {"subdomain", "is set by Tidegate for the members of a gang"},
     {"schedulingGates", "would keep the pod from its node"}}};
constexpr std::array<Forbidden, 5> kOwnOfContainer = {
    {{"image", "is the field image of the replica or job"},
     {"command", "is the field command of the replica or job"},
     {"args", "belongs to the field command of the replica or job"},
     {"envFrom", "is set by Tidegate to the run's environment; give env"},
     {"workingDir", "is the field directory of the replica or job"}}};

// The fields that a tenant's piece may have; all others are refused, also those that later versions of Kubernetes add.
constexpr std::array<std::string_view, 8> kSafeOfPod = {"containers",
                                                        "volumes",
                                                        "securityContext",
                                                        "terminationGracePeriodSeconds",
                                                        "activeDeadlineSeconds",
                                                        "automountServiceAccountToken",
                                                        "dnsPolicy",
                                                        "dnsConfig"};
constexpr std::array<std::string_view, 5> kSafeOfContainer = {"name", "env", "ports", "securityContext",
                                                              "volumeMounts"};
constexpr std::array<std::string_view, 2> kSafeOfVolume = {"name", "emptyDir"};
constexpr std::array<std::string_view, 4> kSafeOfMount = {"name", "mountPath", "subPath", "readOnly"};
constexpr std::array<std::string_view, 3> kSafeOfPort = {"name", "containerPort", "protocol"};
// valueFrom could name another Secret, or a service account's token.
constexpr std::array<std::string_view, 2> kSafeOfVariable = {"name", "value"};

// The first null: Merge() would remove the value at its place.
std::optional<PieceProblem> FirstNull(const json& piece, const std::string& at) {
  if (piece.is_null()) return PieceProblem{at, "is null, which "};
  if (piece.is_object()) {
    for (const auto& [key, value] : piece.items()) {
      if (auto found = FirstNull(value, fmt::format("{}/{}", at, key))) return found;
    }
  } else if (piece.is_array()) {
    for (size_t i = 0; i < piece.size(); ++i) {
      if (auto found = FirstNull(piece[i], fmt::format("{}/{}", at, i))) return found;
    }
  }
  return std::nullopt;
}

std::optional<PieceProblem> BesidesKnown(const json& object, std::span<const std::string_view> known,
                                         const std::string& at) {
  if (!object.is_object()) return PieceProblem{at, "is not an object, which "};
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) return PieceProblem{fmt::format("{}/{}", at, key), ""};
  }
  return std::nullopt;
}

// Objects in a list, of which each has only what is known.
std::optional<PieceProblem> BesidesKnownIn(const json& object, const char* list,
                                           std::span<const std::string_view> known, const std::string& at) {
  if (!object.contains(list)) return std::nullopt;
  const json& items = object[list];
  if (!items.is_array()) return PieceProblem{fmt::format("{}/{}", at, list), "is not a list, which "};
  for (size_t i = 0; i < items.size(); ++i) {
    if (auto found = BesidesKnown(items[i], known, fmt::format("{}/{}/{}", at, list, i))) return found;
  }
  return std::nullopt;
}

std::optional<PieceProblem> UnsafeContext(const json& object, const std::string& of) {
  if (!object.contains("securityContext")) return std::nullopt;
  const std::string at = of + "/securityContext";
  const json& context = object["securityContext"];
  if (!context.is_object()) return PieceProblem{at, "is not an object, which "};
  for (const auto& [key, value] : context.items()) {
    const bool is_id = key == "runAsUser" || key == "runAsGroup" || key == "fsGroup";
    const bool harmless = (key == "runAsNonRoot" && value == true) ||
                          ((key == "privileged" || key == "allowPrivilegeEscalation") && value == false) ||
                          (key == "readOnlyRootFilesystem" && value.is_boolean()) ||
                          (is_id && value.is_number_integer() && value.get<int64_t>() > 0);
    if (!harmless) return PieceProblem{fmt::format("{}/{}", at, key), ""};
  }
  return std::nullopt;
}

// The tenant's own volumes, which are all empty at first, and nothing else can be mounted.
std::optional<PieceProblem> UnsafeMounts(const json& piece, const json& container, const std::string& at) {
  if (!container.contains("volumeMounts")) return std::nullopt;
  size_t index = 0;
  for (const json& mount : container["volumeMounts"]) {
    const bool own = mount.contains("name") && piece.contains("volumes") &&
                     std::ranges::any_of(piece["volumes"], [&](const json& volume) {
                       return volume.contains("name") && volume["name"] == mount["name"];
                     });
    const std::string where = fmt::format("{}/volumeMounts/{}", at, index++);
    if (!own) return PieceProblem{where, "names no volume of this pod, which "};
  }
  return std::nullopt;
}

std::optional<PieceProblem> FirstUnsafe(const json& piece) {
  if (auto found = FirstNull(piece, "")) return found;
  if (auto found = BesidesKnown(piece, kSafeOfPod, "")) return found;
  if (piece.contains("automountServiceAccountToken") && piece["automountServiceAccountToken"] != false)
    return PieceProblem{"/automountServiceAccountToken", ""};
  if (auto found = UnsafeContext(piece, "")) return found;
  if (auto found = BesidesKnownIn(piece, "volumes", kSafeOfVolume, "")) return found;
  if (piece.contains("volumes")) {
    size_t index = 0;
    for (const json& volume : piece["volumes"]) {
      const std::string at = fmt::format("/volumes/{}", index++);
      if (!volume.contains("emptyDir") || !volume["emptyDir"].is_object())
        return PieceProblem{at, "is not an emptyDir, which "};
    }
  }
  if (!piece.contains("containers")) return std::nullopt;
  if (!piece["containers"].is_array()) return PieceProblem{"/containers", "is not a list, which "};
  size_t index = 0;
  for (const json& container : piece["containers"]) {
    const std::string at = fmt::format("/containers/{}", index++);
    if (auto found = BesidesKnown(container, kSafeOfContainer, at)) return found;
    if (!container.contains("name") || container["name"] != kContainer)
      return PieceProblem{at, "adds a container, which could take devices or read the run's environment; "};
    if (auto found = UnsafeContext(container, at)) return found;
    if (auto found = BesidesKnownIn(container, "env", kSafeOfVariable, at)) return found;
    if (auto found = BesidesKnownIn(container, "ports", kSafeOfPort, at)) return found;
    if (auto found = BesidesKnownIn(container, "volumeMounts", kSafeOfMount, at)) return found;
    if (auto found = UnsafeMounts(piece, container, at)) return found;
  }
  return std::nullopt;
}

// The protection of others that a tenant's piece has changed in a pod; empty: none.
std::string LostProtection(const json& before, const json& after) {
  const auto lost_in = [](const json& was, const json& is) -> std::string {
    if (!was.contains("securityContext") || !was["securityContext"].is_object()) return {};
    for (const auto& [key, value] : was["securityContext"].items()) {
      if (key == "runAsUser" || key == "runAsGroup" || key == "fsGroup" || key == "readOnlyRootFilesystem")
        continue;
      const bool there = is.contains("securityContext") && is["securityContext"].is_object() &&
                         is["securityContext"].contains(key);
      const bool safest =
          there && ((key == "runAsNonRoot" && is["securityContext"][key] == true) ||
                    (key == "privileged" && is["securityContext"][key] == false) ||
                    (key == "allowPrivilegeEscalation" && is["securityContext"][key] == false));
      if (!safest && !(there && is["securityContext"][key] == value))
        return fmt::format("securityContext.{}", key);
    }
    return {};
  };
  if (std::string lost = lost_in(before, after); !lost.empty()) return lost;
  const json* const was = ContainerOf(before);
  const json* const is = ContainerOf(after);
  if (was == nullptr || is == nullptr) return "its container";
  if (std::string lost = lost_in(*was, *is); !lost.empty()) return lost;
  if (!before.contains("volumes") || !before["volumes"].is_array()) return {};
  for (const json& volume : before["volumes"]) {
    if (!volume.is_object() || volume.contains("emptyDir")) continue;
    const bool kept = after.contains("volumes") &&
                      std::ranges::any_of(after["volumes"], [&](const json& one) { return one == volume; });
    if (!kept) return fmt::format("volume {}", volume.contains("name") ? volume["name"].dump() : "");
  }
  return {};
}

}  // namespace

std::string Render(const Mark& mark) {
  return json{{"id", mark.id},
              {"owner", mark.owner},
              {"tenant", mark.tenant},
              {"port", mark.port},
              {"grant",
               {{"node", mark.grant.node},
                {"kind", mark.grant.kind},
                {"devices", mark.grant.devices},
                {"milli", mark.grant.milli},
                {"partition", mark.grant.partition},
                {"partition_start", mark.grant.partition_start},
                {"device_mib", mark.grant.device_mib},
                {"cpu_milli", mark.grant.cpu_milli},
                {"memory_mib", mark.grant.memory_mib}}}}
      .dump(-1, ' ', true, json::error_handler_t::replace);
}

std::optional<Mark> ReadMark(std::string_view text) {
  const json read = conf::ParseJson(text);
  if (!read.is_object() || !read.contains("grant") || !read["grant"].is_object()) return std::nullopt;
  Mark mark;
  // Everyone who may write pods may write an annotation.
  try {
    mark.id = read.at("id").get<std::string>();
    mark.owner = read.at("owner").get<std::string>();
    mark.tenant = read.at("tenant").get<std::string>();
    mark.port = read.at("port").get<uint16_t>();
    const json& grant = read.at("grant");
    mark.grant.node = grant.at("node").get<std::string>();
    mark.grant.kind = grant.at("kind").get<std::string>();
    mark.grant.devices = grant.at("devices").get<std::vector<uint8_t>>();
    mark.grant.milli = grant.at("milli").get<uint16_t>();
    mark.grant.partition = grant.at("partition").get<std::string>();
    mark.grant.partition_start = grant.at("partition_start").get<uint8_t>();
    mark.grant.device_mib = grant.at("device_mib").get<int32_t>();
    mark.grant.cpu_milli = grant.at("cpu_milli").get<int64_t>();
    mark.grant.memory_mib = grant.at("memory_mib").get<int64_t>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return mark;
}

void Merge(json& base, const json& piece) {
  MergeAt({}, base, piece);
}

bool UsesHostNetwork(const json& defaults, const json& piece) {
  if (piece.is_object() && piece.contains("hostNetwork")) return piece["hostNetwork"] == true;
  return IsTrueAt(defaults, "hostNetwork");
}

json RenderPod(const Submission& submission) {
  const RunSpec& run = submission.run;
  json spec = BasePod(submission);
  Merge(spec, submission.defaults);
  Merge(spec, PieceOf(run));
  SetOwn(submission, spec);
  json labels = {{"app.kubernetes.io/managed-by", "tidegate"},
                 {kGatewayLabel, LabelOf(submission.gateway)},
                 {kEpochLabel, std::to_string(run.epoch)}};
  const auto label = [&labels](std::string_view key, const std::string& value) {
    if (std::string text = LabelOf(value); !text.empty()) labels[key] = std::move(text);
  };
  label(kWorkloadLabel, run.owner);
  label(kTenantLabel, run.tenant);
  if (run.gang.size > 1) label(kGangLabel, ServiceOf(run.gang.leader));
  const Mark mark{run.id, run.owner, run.tenant, submission.port, run.grant};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", run.id},
            {"namespace", submission.name_space},
            {"labels", std::move(labels)},
            {"annotations", {{kRunAnnotation, Render(mark)}}}}},
          {"spec", std::move(spec)}};
}

json RenderSecret(const Submission& submission, const std::string& uid) {
  const RunSpec& run = submission.run;
  if (run.env.empty()) return json::object();
  const ListenAt at{.host = IsInHostNetwork(submission) ? submission.node_address : "0.0.0.0",
                    .port = submission.port};
  json data = json::object();
  for (const auto& [name, value] : run.env) data[name] = FillPlaceholders(value, run, at);
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "Opaque"},
          {"metadata", OwnedBy(submission, uid, run.id)},
          {"stringData", std::move(data)}};
}

json RenderWeightsSecret(const Submission& submission, const std::string& uid) {
  const RunSpec& run = submission.run;
  if (!run.weights) return json::object();
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "Opaque"},
          {"metadata", OwnedBy(submission, uid, WeightsSecretOf(run))},
          {"stringData", {{kOrderKey, run.weights->order}}}};
}

json RenderService(const Submission& submission, const std::string& uid) {
  const std::string name = ServiceOf(submission.run.gang.leader);
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", OwnedBy(submission, uid, name)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{kGangLabel, name}, {kGatewayLabel, LabelOf(submission.gateway)}}}}}};
}

std::string GangAddress(const std::string& id, const std::string& name_space) {
  return fmt::format("{}.{}.{}.svc", HostName(id), GangOf(id), name_space);
}

std::string ServiceOf(std::string_view leader) {
  const size_t dot = leader.find('.');
  if (dot == std::string_view::npos) return {};
  std::string_view service = leader.substr(dot + 1);
  service = service.substr(0, service.find('.'));
  return service.starts_with("gang-") ? std::string(service) : std::string();
}

std::string FirstDefect(const Submission& submission) {
  const RunSpec& run = submission.run;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  };
  const auto at_end = [](char c) { return c != '.' && c != '-'; };
  if (run.id.empty() || run.id.size() > kMostName || !std::ranges::all_of(run.id, fits) ||
      !at_end(run.id.front()) || !at_end(run.id.back())) {
    return fmt::format(
        "run \"{}\": an id has 1 to {} lower-case letters, digits, '.' and '-', and begins and "
        "ends with a letter or digit",
        run.id, kMostName);
  }
  const auto defect = [&run](std::string_view what) { return fmt::format("run {}: {}", run.id, what); };
  if (run.command.empty() && !run.weights) return defect("has no command");
  if (run.weights && run.weights->image.empty()) {
    return defect(
        "has weights, and the image of tidegate that fetches them is not known; give scaling.weights.image");
  }
  if (run.image.empty()) return defect("has no image, which a pod needs; give the field image");
  if (run.grant.node.empty()) return defect("has no node");
  if (run.grant.milli != 1000)
    return defect("asks for a share of a device; Kubernetes gives whole devices and MIG partitions only");
  for (const auto& [name, value] : run.env) {
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
        value.find('\0') != std::string::npos) {
      return defect(fmt::format("\"{}\" cannot be in an environment", name));
    }
  }
  if (run.pod.empty()) return {};
  const json piece = conf::ParseJson(run.pod);
  if (!piece.is_object()) return defect("its pod is not an object");
  if (const auto wrong = WrongPiece(piece))
    return defect(fmt::format("pod{} {}", wrong->pointer, wrong->why));
  if (submission.safe_tenants && !run.tenant.empty()) {
    // It may have been accepted under other rules; and only here the operator's own piece is seen.
    if (const auto unsafe = UnsafePiece(piece))
      return defect(fmt::format("pod{} {}", unsafe->pointer, unsafe->why));
    json before = BasePod(submission);
    Merge(before, submission.defaults);
    json after = before;
    Merge(after, piece);
    if (const std::string lost = LostProtection(before, after); !lost.empty())
      return defect(fmt::format("its pod changes {} of the pods of tenants", lost));
  }
  if (const json* const container = ContainerOf(piece);
      container != nullptr && container->contains("env") && (*container)["env"].is_array()) {
    for (const json& one : (*container)["env"]) {
      const std::string name = NameOf(one);
      if (std::ranges::any_of(run.env, [&](const auto& own) { return own.first == name; }))
        return defect(fmt::format("its pod sets {}, which its environment sets too", name));
    }
  }
  return {};
}

std::optional<PieceProblem> WrongPiece(const json& piece) {
  if (!piece.is_object()) return PieceProblem{"", "must be a part of a PodSpec: an object"};
  for (const Forbidden& own : kOwnOfPod) {
    if (piece.contains(own.key)) return PieceProblem{fmt::format("/{}", own.key), std::string(own.why)};
  }
  if (piece.contains("initContainers") && !HasNames(piece["initContainers"]))
    return PieceProblem{"/initContainers", "must be a list of containers with names that are texts"};
  if (!piece.contains("containers")) return std::nullopt;
  const json& containers = piece["containers"];
  if (!HasNames(containers))
    return PieceProblem{"/containers",
                        "must be a list of containers with names that are texts; the run's is named run"};
  for (size_t i = 0; i < containers.size(); ++i) {
    const json& container = containers[i];
    if (container["name"] != kContainer) continue;
    for (const Forbidden& own : kOwnOfContainer) {
      if (container.contains(own.key))
        return PieceProblem{fmt::format("/containers/{}/{}", i, own.key), std::string(own.why)};
    }
    if (container.contains("resources") && container["resources"].is_object()) {
      for (const auto& [part, amounts] : container["resources"].items()) {
        if (!amounts.is_object()) continue;
        for (const auto& [name, amount] : amounts.items()) {
          if (name.find('/') != std::string::npos || name == "memory" ||
              (name == "cpu" && part == "requests"))
            return PieceProblem{
                fmt::format("/containers/{}/resources", i),
                fmt::format("names {}, which the planner gives: see devices, cpu and memory of "
                            "the replica's placement or the job",
                            name)};
        }
      }
    }
    if (!container.contains("env")) continue;
    if (!HasNames(container["env"]))
      return PieceProblem{fmt::format("/containers/{}/env", i),
                          "must be a list of variables with names that are texts"};
    for (const json& one : container["env"]) {
      const std::string name = NameOf(one);
      if (name.starts_with("TIDEGATE_"))
        return PieceProblem{fmt::format("/containers/{}/env", i),
                            fmt::format("names {}, which Tidegate sets", name)};
    }
  }
  return std::nullopt;
}

std::optional<PieceProblem> UnsafePiece(const json& piece) {
  constexpr std::string_view kWhy =
      "is not allowed in the jobs of tenants, because it could reach what belongs to others; an operator "
      "allows it with scaling.kubernetes.tenant_pods: any";
  if (auto found = FirstUnsafe(piece)) {
    found->why += kWhy;
    return found;
  }
  return std::nullopt;
}

}  // namespace plugins::launchers::kubernetes
