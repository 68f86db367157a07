// Package logs writes the output of containers in the CRI log format
//
//	<RFC 3339 time with nanoseconds> <stdout|stderr> <P|F> <content>\n
//
// at the path that the kubelet chose. P marks a piece of a line that continues in the next entry of its stream, F the
// last or only piece.
//
// # Where the output comes from
//
// The engine writes a container's output to a log file of its own. Its driver is "local" for criadapter's containers
// and "json-file" for containers of another shim. A follower reads that file by inode. It holds a rotated file open and
// reads it to its end first, so no output is lost that the engine still keeps. The container never waits for a
// follower. Only the engine's size limit bounds how far a follower may fall behind.
//
// The engine does not promise either file format. Unexpected framing ends the follower with an error that wraps
// errFormat. A record that was cut short because the engine ended is not an error: the follower continues with the next
// whole record.
//
// # Positions
//
// A position is the end of a record in the engine's files, with the CRI log's file and size at that point. The follower
// saves it when it begins a file of the engine, around a reopening of the CRI log, after a drain and at Close. A
// follower that resumes converts the records after the position again, and compares them with the CRI log. Entries that
// the CRI log has stay, and a torn last line is completed. So no entry is lost or repeated, however the last follower
// ended, while the engine has the file. This includes an end during a rotation by the kubelet. No log shrinks unless
// its last line is garbage, because readers take a shorter log for a new one.
//
// If the CRI log was emptied or the position is lost, the follower continues after the log's last entry. It finds the
// entry in the engine's files by its time.
//
// # The end of a container
//
// Drain waits until a log is complete. If the log cannot be written, because the disk is full, Drain returns an error.
// The follower completes the log later, while the engine has the container.
//
// # What is missing
//
// Output is lost if a container writes more than the engine keeps while it is not followed. The driver options of
// criadapter keep three files of 10 MB. The engine drops the oldest file when the third is full, so at least 20 MB are
// kept. During a restart of one second, criadapter loses output of containers that write more than 20 MB a second. The
// CRI log keeps its entries, and one line of stderr marks the gap. The line has the missing time span and an estimate
// of the size, from the rate of the remaining output. Counters adds up the estimates. Output in the buffers of a killed
// engine is lost without a mark, because it never was in a file.
//
// # Costs
//
// A followed container costs one goroutine, two file descriptors and one inotify watch. All followers share one inotify
// instance. The kernel limits instances and watches per user. A follower without a watch checks its directory every
// Options.lookPeriod. Buffers are shared, and an idle follower holds none. Followers wake together, at most 50 times a
// second, for any number of containers and lines. So a line waits for 20 to 40 ms. 100 MB of lines take a follower a
// third of a second of CPU time.
package logs
