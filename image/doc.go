// Package image is criadapter's image service. It pulls, lists, inspects and removes the engine's images and measures
// their disk usage, in CRI's terms. It also provides the sandbox image of every pod.
//
// An image has one id, the engine's own: the config's digest with Docker's own image store, the manifest's digest with
// the containerd store. It is unchanged in Image.id, PullImageResponse.image_ref and Container.image_id. The kubelet
// looks up pulled images by it. It would treat an image with different ids as preloaded.
//
// # The cache
//
// List, Status and FsInfo answer from a cache in memory. The first call fills the cache, and Service.Run keeps it up to
// date:
//
//   - Write-through: a pull and a load of this service inspect their image and publish the answer. A removal publishes
//     that its image is gone.
//   - Engine events: package state passes them on, see Service.Changed. They lead to a relist.
//   - A relist after each (re)connection, see Service.Relist, and 45 seconds after the last one. It finds changes
//     without an event: an untagged build below API 1.46, and all changes by containerd's own clients.
//
// A relist costs one list call. It inspects only the images that are new, have other names, or are named by an event.
//
// # What a reader may rely on
//
//   - A snapshot is immutable. Reading one costs an atomic load and never waits for a writer or the engine, once the
//     cache is filled.
//   - After Pull, Remove or EnsureSandboxImage has returned, every answer includes the call's changes.
//   - Own changes are published one at a time. The inspect of a change is sent after the previous change was published.
//     A list never overwrites an image that was published after the list was requested.
//   - A foreign change with an event is visible after one list, at most about a second later. Bursts of events share a
//     list. After a relist comes a pause as long as the relist, but at most 300 ms.
//   - A foreign change without an event is visible within a minute. So is the pin of an image of a container without a
//     pod.
//   - While the engine is away, answers stay as they were.
//   - An image that the engine cannot inspect is listed without its user. Each relist tries it again. A status of it
//     inspects it, and fails rather than leave out the user.
package image
