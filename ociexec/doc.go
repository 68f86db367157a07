// Package ociexec runs commands in containers through the OCI runtime's own command line (runc exec), without
// the engine. Apart from the program criadapter-oci, it is the only package that runs the OCI runtime.
//
// The runtime program and the state directory of a container are the ones that its shim uses. Find reads them from the
// bundle, which is in the same directory as the shim's working directory. Find returns ErrUnsuitable if anything is not
// as expected: the command then needs the engine.
//
// A command is configured like the "process" of the container's own config.json, with another command line. A command
// also inherits namespaces, seccomp filters, capabilities, priority and CPUs. Find checks that the shim and this
// program have the same ones, and no seccomp filter. Resource limits are written into the command's configuration.
//
// A process, the keeper, starts the runtime and is the parent of all commands. It has two descriptors of this program:
// the connection, and the lock of the Runner's directory. The runtimes get neither. When its connection to this program
// ends, the keeper kills all commands.
//
// All methods are safe for concurrent use.
package ociexec
