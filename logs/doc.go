// Package logs writes the output of containers in the CRI log format
//
//	<RFC 3339 time with nanoseconds> <stdout|stderr> <P|F> <content>\n
//
// at the path that the kubelet chose. P marks a piece of a line that goes on in
// the next entry of its stream, F the last or only piece.
//
// # Where the output comes from
//
// The engine writes a container's output to a log file of its own, with the
// driver "local" (for containers that criadapter makes) or "json-file" (for
// containers that another shim made). A follower reads that file by inode: a
// file that the engine has rotated is held open and read to its end before its
// successor, so nothing is lost while the engine still keeps what has not been
// read. The container never waits for a follower; only the engine's own size
// limit bounds how far a follower may fall behind.
//
// Neither file format is a public promise of the engine. What is not framed as
// expected is an error wrapping ErrFormat that ends the follower. A record that
// was cut short by the death of the engine is not: the follower looks for the
// next whole record behind it.
//
// # Positions
//
// A position is the end of a record in the engine's files together with the
// size of the CRI log at that point. Positions are saved when the follower
// leaves a file of the engine, after the first output of the next, when the CRI
// log is reopened, after a drain and at Close. A follower that resumes from one
// cuts the CRI log back to that size and writes the rest again. So no entry is
// lost or repeated, however the last follower ended, as long as the engine
// still has the file. If it has not, the CRI log is kept as it is and continues
// with the oldest entry that the engine still has.
//
// # Costs
//
// One goroutine, two file descriptors and one inotify watch per followed
// container, one inotify instance for all. Buffers are shared: a follower that
// has nothing to write holds none.
package logs
