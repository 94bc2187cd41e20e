#include "tests/support/slurm_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "tests/support/stable_port.h"

extern char** environ;

namespace tests {
namespace {

constexpr milliseconds kPatience{30'000};
constexpr std::array kPrograms = {"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd",
                                  "/usr/sbin/slurmrestd", "/usr/bin/scontrol"};
constexpr const char* kPlugins = "/usr/lib/x86_64-linux-gnu/slurm-wlm";

// Slurm's daemons detach the processes of jobs, so these are found by their environment or their folder.
constexpr const char* kReap = R"(cat > /dev/null
for turn in 1 2 3; do
  for p in /proc/[0-9]*; do
    if grep -qz "^SLURM_CONF=$1/slurm.conf$" "$p/environ" || case $(readlink "$p/cwd") in "$1"*) true ;; *) false ;; esac
    then kill -9 "${p#/proc/}"; fi
  done 2> /dev/null
done
rm -rf "$1"
)";

void Write(const std::string& path, std::string_view text, mode_t mode = 0600) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("cannot write " + path);
  }
  close(fd);
}

std::string RandomBytes(size_t n) {
  std::random_device source;
  std::string bytes;
  for (size_t i = 0; i < n; ++i) bytes += static_cast<char>(source());
  return bytes;
}

}  // namespace

std::string SlurmCluster::WhyNot() {
  for (const char* program : kPrograms) {
    if (!std::filesystem::exists(program)) {
      return fmt::format("{} is not installed; tools/install_packages test does it", program);
    }
  }
  for (const char* plugin : {"auth_jwt.so", "rest_auth_jwt.so", "openapi_v0_0_38.so"}) {
    if (!std::filesystem::exists(fmt::format("{}/{}", kPlugins, plugin))) {
      return fmt::format("Slurm has no {} here, which Debian 12's 22.05 has", plugin);
    }
  }
  return {};
}

SlurmCluster::SlurmCluster(Options options)
    : options_(std::move(options)), controller_port_(StablePort()), rest_port_(StablePort()) {
  // Jobs may run as another user, and must be able to write their files.
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  for (const char* name : {"state", "spool", "gpus", "work"})
    std::filesystem::create_directory(folder_ / name);
  for (int i = 0; i < options_.gpus; ++i) {
    // A device that every user may open; Slurm looks only at its number.
    std::filesystem::create_symlink("/dev/null", folder_ / fmt::format("gpus/gpu{}", i));
  }
  Write(folder_ / "munge.key", RandomBytes(1024));
  Write(folder_ / "jwt.key", RandomBytes(32));
  Write(folder_ / "slurm.conf", Conf(options_), 0644);
  Write(folder_ / "gres.conf",
        fmt::format("NodeName=node[1-{}] Name=gpu Type=h100 File={}/gpus/gpu[0-{}]\n", options_.nodes,
                    folder_.path(), options_.gpus - 1),
        0644);
  StartReaper();
}

SlurmCluster::~SlurmCluster() {
  if (daemons_.contains("slurmctld") && daemons_["slurmctld"]->Running()) {
    Run({"/usr/bin/scancel", "--user=" + user()});
  }
  for (auto& [name, daemon] : daemons_) {
    if (name != "munged" && daemon->Running()) daemon->Signal(SIGKILL);
  }
  daemons_.clear();
  close(reaper_pipe_);
  waitpid(reaper_, nullptr, 0);
}

std::string SlurmCluster::user() const {
  const passwd* entry = getpwuid(getuid());
  return entry ? entry->pw_name : "root";
}

std::string SlurmCluster::Conf(const Options& options) {
  const std::string& at = folder_.path();
  std::string conf =
      fmt::format(R"(ClusterName=tidegate
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={at}/jwt.key
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SlurmdTimeout=5
KillWait=2
ReturnToService=2
)",
                  fmt::arg("port", controller_port_), fmt::arg("user", user()), fmt::arg("at", at));
  for (int i = 1; i <= options.nodes; ++i) {
    conf += fmt::format(
        "NodeName=node{} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs={} Boards=1 "
        "SocketsPerBoard=1 "
        "CoresPerSocket={} RealMemory={} Gres=gpu:h100:{}\n",
        i, StablePort(), options.cpus, options.cpus, options.memory_mib, options.gpus);
  }
  return conf +
         "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=2\n"
         "PartitionName=scavenge Nodes=ALL MaxTime=INFINITE State=UP\n" +
         options.more;
}

// A shell that waits for the end of this process, and then removes everything that is left.
void SlurmCluster::StartReaper() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  reaper_pipe_ = ends[1];
  std::array<std::string, 5> words = {"sh", "-c", kReap, "reaper", folder_.path()};
  std::array<char*, 6> argv = {words[0].data(), words[1].data(), words[2].data(),
                               words[3].data(), words[4].data(), nullptr};
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

std::vector<std::string> SlurmCluster::WordsOf(const std::string& daemon) const {
  const std::string conf = "SLURM_CONF=" + (folder_ / "slurm.conf");
  const std::string address = fmt::format("127.0.0.1:{}", rest_port_);
  const std::string insecure = "SLURMRESTD_SECURITY=disable_user_check";  // it may run as our user
  if (daemon == "munged") {
    return {"/usr/sbin/munged",
            "-F",
            "--force",
            "--num-threads=2",
            "--key-file=" + (folder_ / "munge.key"),
            "--socket=" + (folder_ / "munge.socket"),
            "--pid-file=" + (folder_ / "munge.pid"),
            "--seed-file=" + (folder_ / "munge.seed"),
            "--log-file=" + (folder_ / "munge.log")};
  }
  if (daemon == "slurmctld") return {"/usr/bin/env", conf, "/usr/sbin/slurmctld", "-D"};
  if (daemon == "slurmrestd") {
    return {"/usr/bin/env",         conf,   insecure,          "SLURM_JWT=daemon",
            "/usr/sbin/slurmrestd", "-s",   "openapi/v0.0.38", "-a",
            "rest_auth/jwt",        address};
  }
  if (daemon == "slurmrestd-local") {
    return {"/usr/bin/env",    conf, insecure,          "/usr/sbin/slurmrestd", "-s",
            "openapi/v0.0.38", "-a", "rest_auth/local", "unix:" + socket()};
  }
  return {"/usr/bin/env", conf, "/usr/sbin/slurmd", "-D", "-N", daemon};
}

void SlurmCluster::Launch(const std::string& daemon) {
  if (daemon == "slurmrestd-local") std::filesystem::remove(socket());
  daemons_[daemon] = std::make_unique<ChildProcess>(WordsOf(daemon), folder_ / (daemon + ".out"));
}

std::string SlurmCluster::Start() {
  Launch("munged");
  if (!Within(kPatience, [&] { return std::filesystem::exists(folder_ / "munge.socket"); })) return Output();
  Launch("slurmctld");
  for (int i = 1; i <= options_.nodes; ++i) Launch(fmt::format("node{}", i));
  if (!Within(kPatience, [&] { return AllIdle(); })) return Output();
  Launch("slurmrestd");
  Launch("slurmrestd-local");
  const bool up = Within(kPatience, [&] {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(rest_port_);
    const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return connected && std::filesystem::exists(socket());
  });
  return up ? std::string() : Output();
}

std::string SlurmCluster::Output() const {
  std::string all = "Slurm did not come up:\n";
  for (const auto& [name, daemon] : daemons_) all += fmt::format("{}:\n{}\n", name, daemon->Output());
  return all;
}

bool SlurmCluster::AllIdle() const {
  return Run({"/usr/bin/sinfo", "-h", "-p", "main", "-o", "%T %D"}) == fmt::format("idle {}", options_.nodes);
}

std::string SlurmCluster::Run(std::vector<std::string> words) const {
  words.insert(words.begin(), {"/usr/bin/env", "SLURM_CONF=" + (folder_ / "slurm.conf")});
  const std::string output = folder_ / "command.out";
  std::filesystem::remove(output);
  ChildProcess command(std::move(words), output);
  command.Wait(kPatience);
  std::string said = command.Output();
  while (said.ends_with('\n')) said.pop_back();
  return said;
}

std::string SlurmCluster::Token() const {
  const std::string said = Run({"/usr/bin/scontrol", "token", "lifespan=3600"});
  return said.substr(said.find('=') + 1);
}

uint32_t SlurmCluster::Batch(std::vector<std::string> options, std::string_view script) const {
  const std::string path = folder_ / "script";
  Write(path, fmt::format("#!/bin/sh\n{}\n", script), 0700);
  std::vector<std::string> words = {"/usr/bin/sbatch", "--parsable", "--output=/dev/null",
                                    "--chdir=" + (folder_ / "work")};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(path);
  const std::string said = Run(std::move(words));
  char* end = nullptr;
  const auto id = static_cast<uint32_t>(std::strtoul(said.c_str(), &end, 10));
  EXPECT_TRUE(id > 0 && *end == '\0') << said;
  return id;
}

void SlurmCluster::Stop(const std::string& daemon) {
  daemons_.at(daemon)->Signal(SIGTERM);
  daemons_.at(daemon)->Wait(kPatience);
}

void SlurmCluster::Kill(const std::string& daemon) {
  daemons_.at(daemon)->Signal(SIGKILL);
  daemons_.at(daemon)->Wait(kPatience);
}

void SlurmCluster::Restart(const std::string& daemon) {
  Kill(daemon);
  Launch(daemon);
}

}  // namespace tests
