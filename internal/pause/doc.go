// Package pause holds the built-in sandbox program and its image, so that the first pod of a node needs no registry.
//
// The sandbox container of a pod only has to exist: it holds the pod's namespaces. If the containers share the pod's
// PID namespace, the program is also process 1 of that namespace. It must then reap the children that other processes
// leave behind. The program, written here instruction by instruction, does just that:
//
//  1. It blocks SIGTERM and SIGINT. The kernel discards a signal to process 1
//     of a PID namespace if the signal has its default action. A blocked
//     signal stays pending instead (signal(7), pid_namespaces(7)), and step 3
//     receives it.
//  2. It ignores SIGCHLD. The kernel then reaps every child itself, adopted
//     ones included, and none stays a zombie (POSIX sigaction, wait(2)).
//  3. It waits with rt_sigtimedwait, which needs no handler and no stack, and
//     exits with status 0. When the wait is interrupted (EINTR, as after
//     SIGCONT) it waits again; for any other error it exits with status 1
//     rather than spin.
//
// It is a static ELF file of a few hundred bytes. It touches one page of memory for code and uses no stack.
//
// The assembler is our own because Go's assembler is not a library. A compiled program would need a C compiler for each
// architecture at build time, or be an unreadable binary in the sources (docs/decisions/0003-own-pause-program.md).
package pause
