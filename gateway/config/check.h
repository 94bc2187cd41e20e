// Checks between sections of a configuration: names that refer to each other, listeners, files.
//
// Each check reports to the document at the wrong value. Values that were not read keep their defaults, so a
// check ignores empty names: their problem is reported already.
#pragma once

#include "conf/document.h"
#include "gateway/config/config.h"

namespace gateway::config {

void CheckServer(conf::Document& document, const Config& config);
void CheckAuth(conf::Document& document, const Config& config);
void CheckPeople(conf::Document& document, const Config& config);
void CheckTenants(conf::Document& document, const Config& config);
void CheckModels(conf::Document& document, const Config& config);
void CheckDisaggregation(conf::Document& document, const Config& config);
void CheckRouting(conf::Document& document, const Config& config);
void CheckLedger(conf::Document& document, const Config& config);
void CheckFiles(conf::Document& document, const Config& config);  // certificates, keys, key sets

}  // namespace gateway::config
