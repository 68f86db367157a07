package ociexec

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// reap waits for all children that have ended.
func (k *keeper) reap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
		}
		k.ended(pid, code)
	}
}

// ended reports the end of a command. At the end of a runtime, it reports the start or the failed start of the
// runtime's command. It also reports the command's end if the command ended before the runtime. For any other child, it
// calls endedEarly.
func (k *keeper) ended(pid, code int) {
	if r, found := k.commands[pid]; found {
		delete(k.commands, pid)
		k.tell(report{ID: r.ID, Ended: true, Code: code})
		return
	}
	r, found := k.runtimes[pid]
	if !found {
		k.endedEarly(pid, code)
		return
	}
	delete(k.runtimes, pid)
	commandCode, ended := k.early[pid]
	delete(k.early, pid)
	command := readPID(r.PIDFile)
	if code != 0 || command == 0 {
		k.tell(report{ID: r.ID, Failed: true, Code: code})
		return
	}
	k.tell(report{ID: r.ID, PID: command})
	if ended {
		k.tell(report{ID: r.ID, Ended: true, Code: commandCode})
		return
	}
	k.commands[command] = r
}

// endedEarly keeps the exit code of a command whose runtime has not ended yet. The runtime's pid file names the
// command. A later process can get the command's id, so the exit code is kept under the runtime's id. endedEarly
// ignores any other child: a command left it behind.
func (k *keeper) endedEarly(pid, code int) {
	for runtime, r := range k.runtimes {
		if _, known := k.early[runtime]; !known && readPID(r.PIDFile) == pid {
			k.early[runtime] = code
			return
		}
	}
}

func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0
	}
	return pid
}
