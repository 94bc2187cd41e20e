#include "gateway/config/kubernetes.h"

#include <algorithm>

#include "conf/reader.h"

namespace gateway::config {

std::string DnsLabel::operator()(const std::string& name) const {
  constexpr size_t kLongest = 63;
  const bool fits =
      !name.empty() && name.size() <= kLongest &&
      std::ranges::all_of(
          name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }) &&
      name.front() != '-' && name.back() != '-';
  return fits ? "" : "must be 1 to 63 lower-case letters, digits and '-', and neither begin nor end with '-'";
}

void Bind(conf::Object& o, Kubernetes& kubernetes) {
  o.Optional("kubeconfig", kubernetes.kubeconfig, conf::NotEmpty());
  o.Optional("context", kubernetes.context, conf::NotEmpty());
  o.Optional("namespace", kubernetes.name_space, DnsLabel());
  if (o.reading() && o.Has("context") && !o.Has("kubeconfig"))
    o.Error("has an effect with kubeconfig only; give it, or remove this", "context");
}

}  // namespace gateway::config
