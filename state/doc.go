// Package state is the cache: every pod and container of this node in memory.
// Lists and statuses answer from it and ask the engine nothing.
//
// # How it is filled
//
// One list and one inspect per container at start; write-through by the services that change something (a caller always
// reads its own writes); the engine's event stream for everything that happens by itself or behind our back; and a full
// relist after each (re)connection and at a slow period, which repairs whatever the engine's lossy event stream did not
// tell.
// Before the first of them shows anything, Options.Adopt sees what another shim has left.
//
// # What a reader may rely on
//
//   - A Snapshot is immutable and consistent: take it once per request. Taking
//     it costs an atomic load and never waits for a writer.
//   - Each list has each entry once, whatever the machine's clock does: one table by
//     id says what there is, and the lists are derived from it.
//   - What a Put, Update, Remove or Refresh call wrote is in every snapshot
//     taken after the call returned.
//   - What the engine says is merged per entry: an answer that was asked for
//     before the entry's last write is thrown away, so old news never
//     overwrites newer. A removed id never comes back. An event is inspected a
//     few milliseconds later, unless somebody has inspected meanwhile: whoever
//     changes something looks at it at once.
//   - A pod without a sandbox container is known from its record alone. Each
//     full relist looks whether it is still alive.
//   - A container never goes from exited back to running under one start time.
//   - The engine's list is used only to learn which containers exist; what
//     they do is always taken from an inspect, because after a die event the
//     list of Docker 20.10 still says running for a while.
//   - Every change of a snapshot that a subscriber wants to know of reaches it in
//     the order of the snapshots, or the subscriber learns that it was too slow.
//   - An event from outside is seen after the time of one inspect: some
//     milliseconds on an engine that is not busy. One that the engine did not
//     tell is seen at the next relist (Options.relistPeriod at most).
//   - An exit is published in one order: inspect, the exit hook (which drains
//     the log), then the new state; also that of a container which was never
//     seen running. A hook that was cut short runs again first. Hooks run side by
//     side: a hundred exits at once take as long as one.
//   - A single container that the engine cannot describe does not keep the
//     others from being known. It is tried again.
//   - A container whose name is reserved is not shown until its maker publishes
//     it, so nobody sees a pod that is half set up. If the maker gives up and
//     the container is still there, it appears as soon as the name is released.
//
// While the engine is away Err tells why, and the snapshots stay as they were. One that hangs breaks no connection. It
// is asked for a sign of life when it has given none for four seconds, and counts as hanging when none comes within
// eight more, until it answers. Once a request waits long for its answer that sign has to be a list, because an engine
// that is locked up answers pings.
package state
