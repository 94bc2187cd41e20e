#include "tests/support/kube_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tests/support/shipped.h"

extern char** environ;

namespace tests {
namespace {

constexpr milliseconds kStart{180'000};
constexpr int kPort = 16'400;
constexpr int kNodes = 3;
constexpr int kGpus = 8;
constexpr std::string_view kPrefix = "tgk";  // of folders: unix sockets below them have short names
constexpr std::array kPrograms = {"etcd", "containerd", "ctr",     "runc", "kubectl", "conntrack", "ip",
                                  "xz",   "nsenter",    "unshare", "ldd",  "openssl", "curl",      "python3"};

// Waits for the end of the test process, which holds the other end of its input.
constexpr const char* kEnd = R"(cat > /dev/null
"$1" down "$2"
rm -rf "$2"
)";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool OnPath(std::string_view program) {
  std::string path = Variable("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (access(fmt::format("{}/{}", path.substr(begin, end - begin), program).c_str(), X_OK) == 0)
      return true;
    begin = end + 1;
  }
  return false;
}

std::string Script() {
  if (const std::string named = Variable("TIDEGATE_TEST_KUBE"); !named.empty()) return named;
  const std::filesystem::path conf = ConfDirectory();
  if (conf.empty()) return {};
  return (conf.parent_path().parent_path() / "shared/kube/cluster").string();
}

// Why the script cannot be used; empty: it can.
std::string WhyNotOwn() {
  const std::string script = Script();
  if (access(script.c_str(), X_OK) != 0) return fmt::format("there is no {}", script);
  if (geteuid() != 0) return "a Kubernetes on this machine needs root";
  for (const char* program : kPrograms) {
    if (!OnPath(program))
      return fmt::format("{} is not installed; tools/install_packages kubernetes does it", program);
  }
  if (!std::filesystem::exists("/usr/lib/cni/ptp")) {
    return "/usr/lib/cni/ptp is not installed; tools/install_packages kubernetes does it";
  }
  return {};
}

std::string SpaceOf(const std::string& folder) {
  std::string name = "kube" + folder;
  std::ranges::replace(name, '/', '-');
  return "/run/netns/" + name;
}

// Folders of processes that are gone.
std::vector<std::string> Stale() {
  std::vector<std::string> stale;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const pid_t owner = std::atoi(name.c_str() + kPrefix.size());
    if (owner > 0 && kill(owner, 0) != 0) stale.push_back(entry.path());
  }
  return stale;
}

std::unique_ptr<KubeCluster>& TheOne() {
  static std::unique_ptr<KubeCluster> one;
  return one;
}

// Ends it before main() does: the destructors of statics are too late for ChildProcess's failures.
class EndsCluster : public testing::Environment {
 public:
  void TearDown() override { TheOne().reset(); }
};

}  // namespace

std::string KubeCluster::WhyNot() {
  if (!Variable("TIDEGATE_TEST_KUBE_DIR").empty()) return {};
  const std::string why = WhyNotOwn();
  if (why.empty()) return {};
  if (Variable("TIDEGATE_TEST_KUBECONFIG").empty()) return why + ", and TIDEGATE_TEST_KUBECONFIG is not set";
  if (Variable("TIDEGATE_TEST_KUBE_IMAGE").empty()) {
    return "TIDEGATE_TEST_KUBECONFIG is set, and TIDEGATE_TEST_KUBE_IMAGE is not";
  }
  return OnPath("kubectl") ? "" : "kubectl is not installed";
}

KubeCluster* KubeCluster::Fresh() {
  std::unique_ptr<KubeCluster>& one = TheOne();
  std::string wrong;
  if (one == nullptr) {
    static const bool registered = testing::AddGlobalTestEnvironment(new EndsCluster) != nullptr;
    one.reset(new KubeCluster);
    wrong = registered ? one->Bring() : "no environment";
    if (!wrong.empty()) one.reset();
  }
  if (wrong.empty()) wrong = one->Clean();
  if (wrong.empty()) return one.get();
  ADD_FAILURE() << "no Kubernetes: " << wrong;
  return nullptr;
}

KubeCluster::~KubeCluster() {
  if (!space_.empty()) Ask("DELETE", "/api/v1/namespaces/" + space_);
  proxy_.reset();
  if (reaper_ < 0) return;
  close(reaper_pipe_);
  waitpid(reaper_, nullptr, 0);
}

std::string KubeCluster::server() const {
  return fmt::format("https://127.0.0.1:{}", kPort);
}

std::string KubeCluster::Bring() {
  if (const std::string kept = Variable("TIDEGATE_TEST_KUBE_DIR"); !kept.empty()) {
    script_ = Script();
    folder_ = kept;
  } else if (WhyNotOwn().empty()) {
    script_ = Script();
    if (std::string wrong = BringOwn(); !wrong.empty()) return wrong;
  } else {
    kubeconfig_ = Variable("TIDEGATE_TEST_KUBECONFIG");
    image_ = Variable("TIDEGATE_TEST_KUBE_IMAGE");
  }
  if (has_parts()) {
    kubeconfig_ = folder_ + "/kubeconfig";
    image_ = "local/tidegate-engine:1";
    const int space = open(SpaceOf(folder_).c_str(), O_RDONLY | O_CLOEXEC);
    const bool entered = space >= 0 && setns(space, CLONE_NEWNET) == 0;
    if (space >= 0) close(space);
    if (!entered) return "cannot enter " + SpaceOf(folder_);
  }
  return Serve();
}

std::string KubeCluster::BringOwn() {
  for (const std::string& stale : Stale()) {
    Tell({script_, "down", stale}, kStart);
    std::filesystem::remove_all(stale);
  }
  folder_ = fmt::format("/tmp/{}{}", kPrefix, getpid());
  std::filesystem::create_directories(folder_);
  // Pods may run as another user, and write into folders below.
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  StartReaper();
  const std::string start = (ConfDirectory().parent_path() / "tests/support/kube_up").string();
  const std::string said = Tell({"/bin/bash", start, script_, folder_, TIDEGATE_ENGINE_BINARY,
                                 std::to_string(kNodes), std::to_string(kPort), std::to_string(kGpus)},
                                kStart);
  return said.starts_with("failed") ? said : "";
}

// `kubectl proxy` outlives an API server that ends.
std::string KubeCluster::Serve() {
  if (!OnPath("kubectl")) return "there is no kubectl";
  proxy_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{"/usr/bin/env", "KUBECONFIG=" + kubeconfig_, "kubectl", "proxy", "--port=0"},
      own_ / "proxy.out");
  const std::string line = proxy_->WaitForLine("Starting to serve on", kLong);
  if (line.empty()) return proxy_->Output();
  port_ = static_cast<uint16_t>(std::atoi(line.c_str() + line.rfind(':') + 1));
  return {};
}

void KubeCluster::StartReaper() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  reaper_pipe_ = ends[1];
  std::array<std::string, 6> words = {"sh", "-c", kEnd, "end_kubernetes", script_, folder_};
  std::array<char*, 7> argv{};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int failed = posix_spawn(&reaper_, "/bin/sh", &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (failed != 0) throw std::runtime_error("cannot start a shell");
}

// The output of a command; "failed: …" with another status than 0.
std::string KubeCluster::Tell(std::vector<std::string> words, milliseconds patience) const {
  if (!words[0].starts_with('/')) words.insert(words.begin(), "/usr/bin/env");
  const std::string output = own_ / "command.out";
  std::filesystem::remove(output);
  ChildProcess command(std::move(words), output);
  const std::optional<int> status = command.Wait(patience);
  std::string said = command.Output();
  while (said.ends_with('\n')) said.pop_back();
  return status == 0 ? said : "failed: " + said;
}

std::string KubeCluster::Clean() {
  for (const std::string& part : std::vector(stopped_)) Start(part);
  const std::string before = space_;
  space_ = fmt::format("test-{}-{}", getpid(), ++spaces_);
  if (!before.empty()) {
    Ask("DELETE", fmt::format("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", before));
    Ask("DELETE", "/api/v1/namespaces/" + before);
  }
  Ask("POST", "/api/v1/namespaces",
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", space_}}}});
  for (int node = 1; has_parts() && node <= kNodes; ++node) {
    Ask("PATCH", fmt::format("/api/v1/nodes/node-{}", node),
        {{"spec", {{"unschedulable", nullptr}, {"taints", nullptr}}}}, "application/merge-patch+json");
    const Json gpus = {{"nvidia.com/gpu", std::to_string(kGpus)}};
    Ask("PATCH", fmt::format("/api/v1/nodes/node-{}/status", node),
        {{"status", {{"capacity", gpus}, {"allocatable", gpus}}}}, "application/merge-patch+json");
    if (!Within(kLong, [&] { return Pause(milliseconds(50)), NodeIsReady(node); })) {
      return fmt::format("node-{} does not become ready: {}", node, Kubectl({"describe", "nodes"}));
    }
  }
  // The API server refuses pods of a namespace until its service account is there.
  const std::string account = fmt::format("/api/v1/namespaces/{}/serviceaccounts/default", space_);
  if (!Within(kLong, [&] { return Pause(milliseconds(50)), Ask("GET", account).status == 200; })) {
    return "namespace " + space_ + " has no service account";
  }
  return {};
}

Answer KubeCluster::Ask(std::string_view method, std::string_view path, const Json& body,
                        std::string_view type) const {
  const std::string text = body.is_null() ? "" : body.dump();
  return RawClient(port_).Ask(
      fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {}\r\nContent-Length: "
                  "{}\r\nConnection: close\r\n\r\n{}",
                  method, path, type, text.size(), text));
}

std::string KubeCluster::Kubectl(std::vector<std::string> words) const {
  words.insert(words.begin(), {"/usr/bin/env", "KUBECONFIG=" + kubeconfig_, "kubectl"});
  return Tell(std::move(words), kLong);
}

std::vector<Json> KubeCluster::Pods(std::string_view selector) const {
  const Json list = Read(fmt::format("/api/v1/namespaces/{}/pods{}{}", space_,
                                     selector.empty() ? "" : "?labelSelector=", selector));
  std::vector<Json> pods;
  if (list.is_object() && list.contains("items")) pods = list["items"].get<std::vector<Json>>();
  return pods;
}

Json KubeCluster::Pod(std::string_view name) const {
  const Answer answer = Ask("GET", fmt::format("/api/v1/namespaces/{}/pods/{}", space_, name));
  return answer.status == 200 ? answer.json() : Json();
}

void KubeCluster::Create(const std::string& name, const std::string& node, int devices,
                         const std::string& script, const Json& spec) const {
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", name}}},
              {"spec",
               {{"restartPolicy", "Never"},
                {"automountServiceAccountToken", false},
                {"terminationGracePeriodSeconds", 1},
                {"containers",
                 {{{"name", "main"},
                   {"image", image_},
                   {"imagePullPolicy", has_parts() ? "Never" : "IfNotPresent"},
                   {"command", {"/bin/sh", "-c", script}}}}}}}};
  if (!node.empty()) pod["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", node}};
  if (devices > 0) {
    pod["spec"]["containers"][0]["resources"] = {{"limits", {{"nvidia.com/gpu", devices}}}};
  }
  pod["spec"].merge_patch(spec);
  const Answer answer = Ask("POST", fmt::format("/api/v1/namespaces/{}/pods", space_), pod);
  EXPECT_EQ(answer.status, 201) << answer.body;
}

bool KubeCluster::Runs(std::string_view name) const {
  const Json pod = Pod(name);
  return pod.is_object() && pod["status"].value("phase", "") == "Running";
}

void KubeCluster::Delete(const std::string& name) const {
  Ask("DELETE", fmt::format("/api/v1/namespaces/{}/pods/{}?gracePeriodSeconds=0", space_, name));
}

void KubeCluster::Stop(const std::string& part) {
  Tell({script_, "stop", folder_, part}, kLong);
  stopped_.push_back(part);
}

void KubeCluster::Start(const std::string& part) {
  Tell({script_, "start", folder_, part}, kLong);
  std::erase(stopped_, part);
  if (part != "apiserver") return;
  EXPECT_TRUE(Within(kLong, [&] { return Pause(milliseconds(100)), Ask("GET", "/readyz").body == "ok"; }));
}

bool KubeCluster::NodeIsReady(int node) const {
  const Json found = Read(fmt::format("/api/v1/nodes/node-{}", node));
  if (!found.is_object() || !found.contains("status")) return false;
  const Json taints = found["spec"].value("taints", Json::array());
  for (const Json& taint : taints) {
    if (taint["key"].get<std::string>().starts_with("node.kubernetes.io/")) return false;
  }
  for (const Json& condition : found["status"]["conditions"]) {
    if (condition["type"] == "Ready") return condition["status"] == "True";
  }
  return false;
}

}  // namespace tests
