#include "gateway/log.h"

#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "conf/json_text.h"
#include "conf/shown.h"

namespace gateway::log {
namespace {

constexpr size_t kQueueLines = 2048;

std::atomic<int> minimum{static_cast<int>(Level::kInfo)};
bool as_json = false;

spdlog::level::level_enum LevelOf(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("tidegate", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::debug);
    return made;
  }();
  return logger;
}

void AppendValue(std::string& out, const Value& value, bool json) {
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string_view>) {
          if (json) {
            conf::AppendQuoted(out, v);
          } else {
            out += conf::Visible(v);  // what a client sent must not begin a line
          }
        } else {
          fmt::format_to(std::back_inserter(out), "{}", v);
        }
      },
      value);
}

}  // namespace

void Init(Level least, bool json) {
  minimum = static_cast<int>(least);
  as_json = json;
  spdlog::init_thread_pool(kQueueLines, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::async_logger>("tidegate", std::move(sink), spdlog::thread_pool(),
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(spdlog::level::debug);
  logger->set_pattern(
      as_json ? "{\"time\":\"%Y-%m-%dT%H:%M:%S.%fZ\",\"level\":\"%l\",%v}" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
      spdlog::pattern_time_type::utc);
  Logger() = std::move(logger);
}

void Flush() {
  Logger()->flush();
  spdlog::shutdown();
}

bool Enabled(Level level) {
  return static_cast<int>(level) >= minimum.load(std::memory_order_relaxed);
}

void Write(Level level, std::string_view event, Fields fields) {
  if (!Enabled(level)) return;
  std::string line;
  if (as_json) {
    line = "\"event\":";
    conf::AppendQuoted(line, event);
    for (const Field& field : fields) {
      line += ',';
      conf::AppendQuoted(line, field.name);
      line += ':';
      AppendValue(line, field.value, true);
    }
  } else {
    line = event;
    for (const Field& field : fields) {
      line.append(" ").append(field.name).append("=");
      AppendValue(line, field.value, false);
    }
  }
  Logger()->log(LevelOf(level), "{}", line);
}

void Exception(std::string_view where, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    Error("unexpected exception", {{"where", where}, {"what", e.what()}});
  } catch (...) {
    Error("unexpected exception", {{"where", where}});
  }
}

uint64_t Dropped() {
  return spdlog::thread_pool() ? spdlog::thread_pool()->overrun_counter() : 0;
}

}  // namespace gateway::log
