// Package dockertest is a Docker Engine in memory: a docker.Engine with state,
// events, faults and latency, for tests of the packages above it.
//
//	engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{{Names: []string{"busybox"}}}})
//	defer engine.Close()
//
// It behaves like Docker 20.10 or like Docker 29 (Options.Flavor) wherever the difference matters to criadapter.
// Programs (Options.Programs) define what its containers do. By default a container runs until it is signalled, and a
// command in a container ends at once without output.
//
// Tests control it with these functions. Exit ends a process. Away and Back take the engine away and bring it back.
// Crash takes it away like a kill of dockerd. Inject makes calls fail, wait, or fail after they took effect. All
// functions are safe for concurrent use. The engine's process ids are larger than any process id of Linux, so that a
// test signals no real process by mistake.
//
// Conformance runs the same scenarios against it and against the real engine.
package dockertest
