// The charge of a request: what it used, instead of what was reserved.
#pragma once

#include "gateway/request/exchange.h"

namespace gateway {

// Completes the counts, settles the reservation and gives back its permit. Called before the last bytes of an
// answer are sent, so that a client that asks again at once finds its room. Later calls do nothing.
void Charge(Exchange& x);

}  // namespace gateway
