// Command vm tries the tree's build on an ordinary node: an emulated computer (package machine) with Debian's kernel,
// systemd with its cgroup driver, cgroup v2 and AppArmor. The deb is installed there.
//
//	go run ./test/vm [-cached] [-run 'criadapter check'] [-set name]
//
// The shell of the machine runs the lines of -run, and vm passes on their output and exit code. A set is a prepared
// group of checks.
package main
