// Tile instructions on processors without them: caught one by one, decoded from the machine code and carried out in
// plain code, so that what was compiled for amx is tested anywhere, slowly. Nothing here knows cpu/tile.h.
#pragma once

namespace lithe::testing_support {

/// From now on illegal instructions of all threads that are tile instructions are carried out, as the manual says and
/// as strictly: tiles must be configured, and shapes must fit. False where the processor is no x86-64 under Linux.
bool trap_tiles();
/// How many were.
long trapped_tiles();

}  // namespace lithe::testing_support
