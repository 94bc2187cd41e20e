#include "gateway/config/lora.h"

#include "conf/reader.h"
#include "gateway/config/types.h"

namespace gateway::config {

void Bind(conf::Object& o, Lora& lora) {
  o.Required("base", lora.base, ValidName());
  o.Optional("adapter", lora.adapter, conf::NotEmpty());
}

}  // namespace gateway::config
