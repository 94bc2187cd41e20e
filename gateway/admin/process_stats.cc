#include "gateway/admin/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace gateway {
namespace {

// Seconds since the Unix epoch at which the system was started.
double BootTime() {
  std::ifstream stat("/proc/stat");
  std::string word;
  while (stat >> word) {
    double value = 0;
    if (word == "btime" && stat >> value) return value;
  }
  return 0;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field is the command's name in brackets, which may hold anything.
  if (const size_t name_end = line.rfind(')'); name_end != std::string::npos) {
    std::istringstream fields(line.substr(name_end + 1));
    std::string skip;
    const auto skip_fields = [&](int n) {
      while (n-- > 0) fields >> skip;
    };
    uint64_t user = 0, system = 0, started = 0, resident_pages = 0;
    skip_fields(11);  // 3 to 13
    fields >> user >> system;
    skip_fields(4);  // 16 to 19
    fields >> stats.threads;
    skip_fields(1);
    fields >> started >> stats.virtual_bytes >> resident_pages;
    stats.resident_bytes = resident_pages * page;
    stats.cpu_seconds = static_cast<double>(user + system) / ticks;
    stats.start_time = BootTime() + static_cast<double>(started) / ticks;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++stats.open_fds;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = limit.rlim_cur;
  return stats;
}

}  // namespace gateway
