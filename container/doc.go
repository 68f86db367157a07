// Package container runs the containers of pods: it creates, starts, stops, removes and updates them and runs commands
// in them.
//
// A container's state is derived from the facts in the cache (see state.ContainerStatus). What each call does in each
// state:
//
//	           | Start              | Stop          | Remove       | Update             | ExecSync
//	-----------+--------------------+---------------+--------------+--------------------+-------------------
//	CREATED    | RUNNING, or EXITED | nothing       | gone         | limits changed     | FailedPrecondition
//	           | if it cannot run   |               |              |                    |
//	RUNNING    | FailedPrecondition | EXITED        | killed, gone | limits changed     | the command runs
//	EXITED     | FailedPrecondition | nothing       | gone         | FailedPrecondition | FailedPrecondition
//	UNKNOWN    | FailedPrecondition | engine asked  | gone         | FailedPrecondition | FailedPrecondition
//	unknown id | NotFound           | nothing       | nothing      | NotFound           | NotFound
//
// RUNNING becomes EXITED by itself when the process ends. The cache learns it from the engine's events, and calls
// FinishExit before it shows the exit.
//
// One lock per container serializes its Start, Remove and Update. One lock per name serializes the Creates of that
// name. Stop takes no lock while it waits for the container. So a Remove, or a later Stop with a shorter grace period,
// does not wait for that Stop.
//
// After each call that returns nil the cache shows what the call did.
package container
