#include "tests/support/postgres_server.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tests {
namespace {

// The newest that is installed; empty: none is.
std::string PostgresBinaries() {
  std::string found;
  std::error_code error;
  std::filesystem::directory_iterator entry("/usr/lib/postgresql", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string folder = entry->path().string() + "/bin";
    if (std::filesystem::exists(folder + "/initdb") && folder > found) found = folder;
  }
  return found;
}

const passwd* PostgresUser() {
  if (geteuid() != 0) return nullptr;
  const passwd* const own = getpwnam("postgres");
  return own != nullptr ? own : getpwnam("nobody");
}

}  // namespace

std::string PostgresServer::Missing() {
  if (PostgresBinaries().empty()) return "PostgreSQL is not installed (postgresql-15)";
  if (geteuid() == 0 && PostgresUser() == nullptr) return "no user but root, and PostgreSQL refuses root";
  return {};
}

PostgresServer& PostgresServer::Shared() {
  static PostgresServer server;
  static const bool started = server.Start();
  if (!started) std::abort();
  return server;
}

PostgresServer::PostgresServer(std::vector<std::string> settings) : settings_(std::move(settings)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "pg-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  Give(folder_);
}

PostgresServer::~PostgresServer() {
  Kill();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void PostgresServer::Give(const std::string& path) const {
  const passwd* const user = PostgresUser();
  if (user != nullptr && chown(path.c_str(), user->pw_uid, user->pw_gid) != 0) std::abort();
}

std::string PostgresServer::Binary(const std::string& name) const {
  return PostgresBinaries() + "/" + name;
}

pid_t PostgresServer::Spawn(const std::vector<std::string>& words) const {
  std::vector<std::string> all;
  if (const passwd* const user = PostgresUser(); user != nullptr) {
    all = {"/usr/bin/setpriv",           "--reuid",       std::to_string(user->pw_uid), "--regid",
           std::to_string(user->pw_gid), "--clear-groups"};
  }
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = folder_ + "/log";
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(out, 1);
  dup2(out, 2);
  if (chdir(folder_.c_str()) != 0) _exit(127);
  unsetenv("PGPASSWORD");
  execv(argv[0], argv.data());
  _exit(127);
}

bool PostgresServer::Run(const std::vector<std::string>& words) const {
  int status = 0;
  const pid_t pid = Spawn(words);
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool PostgresServer::Start() {
  if (pid_ > 0) return true;
  const std::string data = folder_ + "/data";
  if (!std::filesystem::exists(data)) {
    const std::string password = folder_ + "/password";
    std::ofstream(password) << kPassword << "\n";
    Give(password);
    if (!Run({Binary("initdb"), "-D", data, "-U", kUser, "--pwfile", password, "--auth-local=trust",
              "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"}))
      return false;
  }
  std::vector<std::string> words{Binary("postgres"), "-D", data, "-p", std::to_string(port_.number())};
  std::vector<std::string> settings{"listen_addresses=127.0.0.1", "unix_socket_directories=" + folder_,
                                    "fsync=off", "full_page_writes=off", "shared_buffers=16MB"};
  settings.insert(settings.end(), settings_.begin(), settings_.end());
  for (const std::string& setting : settings) {
    words.emplace_back("-c");
    words.push_back(setting);
  }
  pid_ = Spawn(words);
  for (int i = 0; i < 300; ++i) {
    if (Run({Binary("pg_isready"), "-q", "-h", folder_, "-p", std::to_string(port_.number()), "-d",
             "postgres", "-U", kUser}))
      return true;
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  pid_ = -1;
  return false;
}

void PostgresServer::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

// Its processes end by themselves when the first one is gone, which takes a moment.
void PostgresServer::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGQUIT);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void PostgresServer::Stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGINT);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool PostgresServer::MakeCopy() {
  return Run({Binary("pg_basebackup"), "-D", folder_ + "/copy", "-h", folder_, "-p",
              std::to_string(port_.number()), "-U", kUser, "-c", "fast", "--no-sync", "-X", "fetch"});
}

bool PostgresServer::PromoteCopy() {
  Stop();
  std::error_code error;
  std::filesystem::remove_all(folder_ + "/data", error);
  std::filesystem::rename(folder_ + "/copy", folder_ + "/data", error);
  if (error) return false;
  std::ofstream(folder_ + "/data/standby.signal").close();
  Give(folder_ + "/data/standby.signal");
  return Start() && Run({Binary("pg_ctl"), "promote", "-w", "-t", "30", "-D", folder_ + "/data"});
}

bool PostgresServer::MakeDatabase(const std::string& name) {
  return Sql("postgres", "CREATE DATABASE " + name);
}

bool PostgresServer::Sql(const std::string& database, const std::string& sql) const {
  return Run({Binary("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", folder_, "-p",
              std::to_string(port_.number()), "-U", kUser, "-d", database, "-c", sql});
}

std::string PostgresServer::Url(const std::string& database, const std::string& options) const {
  return std::string("postgres://") + kUser + "@127.0.0.1:" + std::to_string(port_.number()) + "/" +
         database + (options.empty() ? "" : "?" + options);
}

std::string PostgresServer::Own(const std::string& file, const std::string& name) const {
  const std::string to = folder_ + "/" + name;
  std::filesystem::copy_file(file, to, std::filesystem::copy_options::overwrite_existing);
  chmod(to.c_str(), 0600);
  Give(to);
  return to;
}

}  // namespace tests
