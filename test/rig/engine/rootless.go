package engine

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// rootlessKitInfo is RootlessKit's answer to GET /v1/info if no driver publishes ports.
const rootlessKitInfo = `{"apiVersion":"1.1.1","version":"2.3.5","stateDir":"","childPID":1,
	"networkDriver":{"driver":"none","mtu":1500},"portDriver":{"driver":"none","protos":[]}}`

// makeRootless prepares an engine to run as under RootlessKit: as root of a user namespace, with the flag --rootless
// and the address of RootlessKit's socket. The returned function closes that socket.
func (e *Engine) makeRootless(cmd *exec.Cmd) (end func(), err error) {
	cmd.Args = append(cmd.Args, "--rootless", "--group=root") // there is no other group in the namespace
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
	home := e.path("home")
	cmd.Env = append(cmd.Env, "HOME="+home, "XDG_RUNTIME_DIR="+home, "ROOTLESSKIT_STATE_DIR="+home)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	// Engines look for this program of RootlessKit, which publishes ports.
	cmd.Env = append(cmd.Env, "PATH="+home+string(os.PathListSeparator)+e.SearchPath())
	if err := os.Symlink("/bin/true", filepath.Join(home, "rootlesskit-docker-proxy")); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(home, "api.sock"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, rootlessKitInfo) // fails when the engine has gone
	})}
	go func() { _ = server.Serve(listener) }() // until the end
	return func() { server.Close() }, nil
}
