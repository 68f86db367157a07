// Package state is the cache of this node's pods and containers in memory. Lists and statuses answer from it without a
// call to the engine.
//
// # How it is filled
//
//   - At start: one list, and one inspect for each container whose end is not in the checkpoint.
//   - Write-through: services publish what they change, so a caller always reads its own writes.
//   - Engine events: changes by the engine, by the containers' processes and by other clients.
//   - A full relist after each (re)connection and every Options.relistPeriod. It repairs what the engine's lossy event
//     stream left out.
//
// The program has one stream of events. Package image gets its events through Options.ImageChanged and
// Options.ForeignChanged: events about images, and about containers that belong to no pod.
//
// Options.Adopt sees the pods of another shim before the cache shows any pod.
//
// # What a reader may rely on
//
//   - A Snapshot is immutable and consistent. Take it once per request: it costs an atomic load and never waits for a
//     writer.
//   - Each list has each entry once, even if the machine's clock is set back. Lists are derived from one table by id.
//   - Every snapshot taken after a Put, Update, Remove or Refresh call has returned contains what the call wrote.
//   - An inspect is merged per entry. The cache discards an answer that was requested before the entry's last write, so
//     an older state never overwrites a newer one. A removed id never comes back.
//   - An event leads to an inspect a few milliseconds later, unless a newer inspect was merged meanwhile.
//   - A pod without a sandbox container is known from its record alone. Each full relist checks whether it is alive.
//   - A container never goes from exited back to running under one start time.
//   - A container that has ended stays until RemoveContainer, even if another client removes it from the engine
//     (docker system prune). Otherwise the kubelet may never see its end. If no inspect has seen the end, the cache
//     takes the end from the engine's event. The checkpoint keeps the end over a restart of this program.
//   - The engine's list only says which containers exist, and whether an end in the checkpoint is still the last end.
//     The containers' states come from inspects: the list of Docker 20.10 says running for a while after a die event.
//   - A subscriber receives every change in the order of the snapshots, or learns that it was too slow.
//   - A change that criadapter did not make is visible after one inspect: some milliseconds on an engine that is not
//     busy. A change without an event is visible after the next relist.
//   - An exit is published in one order: inspect, the exit hook (which drains the log), then the new state. This holds
//     for a container that was never seen running, too. An interrupted hook runs again first. Hooks run concurrently: a
//     hundred exits at once take as long as one.
//   - If the engine cannot inspect a container, the cache still shows all other containers. It inspects that container
//     again later.
//   - A container whose name is reserved is hidden until its creator publishes it, so no reader sees a pod that is half
//     set up. If the creator gives up and the container still exists, it appears when the name is released.
//
// While the engine is away, Err says why and the snapshots stay as they were. An engine that hangs breaks no
// connection, so the cache probes it after four quiet seconds. After eight more seconds without an answer, the
// engine counts as hanging until it answers. After a request timed out, the probe is a list, because a locked-up engine
// still answers pings.
package state
