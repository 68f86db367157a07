// Package logs writes the output of containers in the CRI log format
//
//	<RFC 3339 time with nanoseconds> <stdout|stderr> <P|F> <content>\n
//
// at the path that the kubelet chose. P marks a piece of a line that goes on in
// the next entry of its stream, F the last or only piece.
//
// # Where the output comes from
//
// The engine writes a container's output to a log file of its own, with the driver "local" (for containers that
// criadapter makes) or "json-file" (for containers that another shim made). A follower reads that file by inode: a file
// that the engine has rotated is held open and read to its end before its successor, so nothing is lost while the
// engine still keeps what has not been read. The container never waits for a follower; only the engine's own size limit
// bounds how far a follower may fall behind.
//
// Neither file format is a public promise of the engine. What is not framed as expected is an error wrapping errFormat
// that ends the follower. A record that was cut short by the death of the engine is not: the follower goes on with the
// next whole record behind it, as soon as there is one.
//
// # Positions
//
// A position is the end of a record in the engine's files together with the
// CRI log's file and size at that point. Positions are saved when the follower
// begins a file of the engine, around a reopening of the CRI log, after a drain
// and at Close. A follower that resumes from one converts what is behind it again
// and compares: what the CRI log holds already stays, a torn last line is
// completed. So no entry is lost or repeated, however the last follower ended, as
// long as the engine still has the file; that includes an end in the middle of a
// rotation by the kubelet. And no log shrinks, unless its last line is garbage:
// readers take a log that has shrunk for a new one.
//
// Where the CRI log does not go on as it was left, because somebody has emptied it since, and where the position is
// lost, the follower goes on behind the log's last entry, which it finds in the engine's files by its time.
//
// # The end of a container
//
// Drain waits until a log is complete. When it cannot be written (the disk is full) Drain says so, and the follower
// completes the log later, as long as the engine has the container.
//
// # What is missing
//
// A container that writes more than the engine keeps while nobody follows it loses output. With the 30 MB of the driver
// options that criadapter sets (the oldest of three files of 10 MB goes when the third is full, so at least 20 MB are
// there) and a restart of a second, that takes more than 20 MB a second. Then the CRI log is kept as it is, and one
// line of stderr marks the place with the time that is missing and, by the rate at which the container wrote what is
// left, about how much that is; Counters adds it up. What the engine itself lost, in its own buffers when it was
// killed, is in none of its files and not marked.
//
// # Costs
//
// One goroutine, two file descriptors and one inotify watch per followed container, one inotify instance for all.
// Instances and watches are limited per user: where the kernel has none left, followers look by themselves every
// Options.lookPeriod until it has. Buffers are shared: a follower that has nothing to write holds none. A busy follower
// copies some 200 times a second, whatever the number of lines: 100 MB of lines take it a third of a second of CPU
// time.
package logs
