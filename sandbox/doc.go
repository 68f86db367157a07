// Package sandbox runs pods: it makes, stops and removes their sandboxes. After a restart it repairs running pods, and
// stops pods whose set-up or stop was interrupted.
//
// A sandbox is the network namespace that the pod's containers join. Some pods also share an IPC or a PID namespace.
// Either a waiting sandbox container or the kernel holds these namespaces: see holder. A sandbox's states, with the
// checkpoint's phase:
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
// Every step of Run pushes its undo. A failure runs the undos, newest first, on a fresh context. When an undo fails,
// the unwinding ends there and the pod stays visible as NOTREADY. The kubelet's garbage collection then repeats the
// rest with StopPodSandbox and RemovePodSandbox.
//
// CNI ADD begins as soon as the sandbox's network namespace exists, while the engine still starts a sandbox container.
// By then the intent is on disk.
//
// A Run goes on when its caller's deadline passes. A repetition of the same request gets the finished pod. A different
// request under the same name fails with ErrAlreadyExists.
//
// One lock per pod is held while a pod's own parts change. It is never held while containers are stopped or removed:
// they have locks of their own.
package sandbox
