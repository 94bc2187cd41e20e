#include "gateway/discovery/open_source.h"

#include <utility>

#include "gateway/discovery/dns_source.h"
#include "gateway/discovery/file_source.h"
#include "gateway/discovery/service_source.h"

namespace gateway::discovery {

std::shared_ptr<Source> OpenSource(net::Loop& loop, const config::Discovery& of,
                                   const plugins::kubernetes::Place& place, Source::Listener listener) {
  if (of.dns) return std::make_shared<DnsSource>(loop, of, std::move(listener));
  if (of.kubernetes) return std::make_shared<ServiceSource>(loop, of, place, std::move(listener));
  return std::make_shared<FileSource>(loop, of, std::move(listener));
}

}  // namespace gateway::discovery
