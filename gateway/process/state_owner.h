// A command that root runs on the state folder of a gateway leaves no file there that the gateway cannot open.
#pragma once

#include <string>

namespace gateway {

// Gives what root has just made in state_dir, and in its ledger's folder, to the owner of state_dir. Nothing is changed
// where root owns it, and by others than root.
void GiveToOwner(const std::string& state_dir);

}  // namespace gateway
