package userns

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// capabilities is two times struct __user_cap_data_struct. Each has 32 capabilities.
type capabilities [2]struct{ effective, permitted, inheritable uint32 }

// capabilityVersion is _LINUX_CAPABILITY_VERSION_3.
const capabilityVersion = 0x20080522

// ActAs calls f with the effective ids uid and gid and with root's capabilities. It changes only the calling thread,
// which runs as root before and after. The kernel allows some operations only to users with mapped ids: writing sysctls
// of an IPC namespace, and making files in an overlay of mapped layers.
func ActAs(uid, gid int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := setEffective(uid, gid)
	if err == nil {
		err = raiseCapabilities()
	}
	if err == nil {
		err = f()
	} else {
		err = fmt.Errorf("acting as user %d: %w", uid, err)
	}
	// The ids are restored after an error, too, since setEffective may have changed one of them.
	if backErr := setEffective(0, 0); backErr != nil {
		runtime.LockOSThread() // never unlocked, so that no other goroutine gets this thread
		return errors.Join(err, fmt.Errorf("acting as root again: %w", backErr))
	}
	return err
}

// setEffective changes the ids of the calling thread only. The functions of package syscall change all threads.
func setEffective(uid, gid int) error {
	const same = ^uintptr(0)
	setGroup := func() syscall.Errno {
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, same, uintptr(gid), same)
		return errno
	}
	setUser := func() syscall.Errno {
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same)
		return errno
	}
	first, second := setGroup, setUser
	if uid == 0 {
		first, second = setUser, setGroup
	}
	if errno := first(); errno != 0 {
		return errno
	}
	if errno := second(); errno != 0 {
		return errno
	}
	return nil
}

// raiseCapabilities makes all permitted capabilities effective again, since the change of the user has cleared them.
func raiseCapabilities() error {
	return changeCapabilities(func(have *capabilities) {
		for i := range have {
			have[i].effective = have[i].permitted
		}
	})
}

// changeCapabilities changes the capabilities of the calling thread.
func changeCapabilities(change func(have *capabilities)) error {
	header := struct {
		version uint32
		pid     int32
	}{version: capabilityVersion}
	var have capabilities
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&have)), 0); errno != 0 {
		return errno
	}
	change(&have)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&have)), 0); errno != 0 {
		return errno
	}
	return nil
}
