// Package sandbox runs pods: it makes, stops and removes their sandboxes, and
// finishes after a restart what a crash has cut short.
//
// A sandbox is the network namespace, and where the pod wants it the IPC and PID namespaces, that the pod's containers
// join. A container of a program that only waits holds them, or the kernel does: see the interface holder, which alone
// knows. A sandbox's states, with the checkpoint's phase:
//
//	          create, intent           CNI ADD, ready
//	(nothing) -------------> NOTREADY -------------> READY
//	    ^                       |  ^                   |
//	    |        roll-back      |  |  process ended,   |
//	    +-----------------------+  |  StopPodSandbox   |
//	    |                          +-------------------+
//	    |                          | intent, CNI DEL, stopped
//	    |      RemovePodSandbox    v
//	    +---------------------- NOTREADY
//
// Every step of Run pushes its undo; a failure unwinds them, newest first, on a fresh context. When an undo fails the
// unwinding ends there and the pod stays visible as NOTREADY, so that the kubelet's garbage collection repeats what is
// left with StopPodSandbox and RemovePodSandbox.
//
// CNI ADD begins as soon as the sandbox's network namespace exists, while the
// engine still starts a sandbox container; the intent is on disk before.
//
// A Run goes on when its caller's deadline passes: the same request repeated
// gets the finished pod, a different one under the same name ErrAlreadyExists.
//
// One lock per pod is held while a pod's own parts change. It is never held
// while containers are stopped or removed, which have locks of their own.
package sandbox
