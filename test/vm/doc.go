// Command vm tries the tree's build on an ordinary node: an emulated computer (package machine) with Debian's kernel,
// systemd with its cgroup driver, cgroup v2 and AppArmor. The deb is installed there.
//
//	go run ./test/vm [-cached] [-run 'criadapter check'] [-set name]
//
// Lines of a shell are run on the machine, and their output and exit code are the command's own. A set is something
// ready.
package main
