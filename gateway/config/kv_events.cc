#include "gateway/config/kv_events.h"

#include <cstdint>
#include <string_view>

#include "conf/reader.h"
#include "conf/text.h"

namespace gateway::config {
namespace {

constexpr std::string_view kScheme = "tcp://";

struct SocketUrl {
  std::string operator()(std::string_view url) const {
    const std::string_view rest = url.starts_with(kScheme) ? url.substr(kScheme.size()) : std::string_view();
    const size_t colon = rest.rfind(':');
    const std::string_view host = rest.substr(0, colon);  // {host}: of a discovered address
    const std::string_view digits = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
    const bool good = conf::ReadNumber<uint16_t>(digits).value_or(0) > 0 && !host.empty() &&
                      host.find_first_of("/@*? ") == std::string_view::npos;
    return good ? "" : "must be an address that the gateway can connect to, such as tcp://10.0.0.5:5557";
  }
};

}  // namespace

void Bind(conf::Object& o, KvEvents& events) {
  o.Required("url", events.url, SocketUrl());
  o.Optional("replay", events.replay, SocketUrl());
  o.Optional("topic", events.topic, conf::NotEmpty());
  if (o.reading() && !events.url.empty() && events.url == events.replay)
    o.Error("is the same address as url; engines replay on a separate socket", "replay");
}

}  // namespace gateway::config
