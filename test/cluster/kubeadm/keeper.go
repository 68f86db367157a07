package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/test/cluster/machine"
	debian "github.com/criadapter/criadapter/test/debian/machine"
	"github.com/criadapter/criadapter/test/netdevice"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/registry"
)

// Descriptors that the keeper inherits after the standard ones.
const (
	fdListener = 3 // listens on 127.0.0.1 of the host's network namespace
	fdProgress = 4 // gets a line per stage
)

// keeper owns a cluster.
type keeper struct {
	client
	progress *os.File
	machines map[string]*debian.Machine
	// bridge connects the nodes, in the keeper's network namespace.
	bridge *netdevice.Bridge
	undo   []func() error // in the order of the steps that they undo
}

// keep brings the cluster of the plan up, keeps it until ctx ends, and removes it.
func keep(ctx context.Context) error {
	for _, fd := range []int{fdListener, fdProgress} {
		unix.CloseOnExec(fd) // the machines must not inherit the descriptor
	}
	lock, err := takeLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	p, err := readPlan()
	if err != nil {
		return err
	}
	k := &keeper{
		client:   client{p, filepath.Join(p.Dir, "admin.conf")},
		progress: os.NewFile(fdProgress, "progress"), machines: map[string]*debian.Machine{},
	}
	return machine.Guarded(ctx, func() (err error) {
		defer func() { err = errors.Join(err, k.close()) }()
		if err := k.bringUp(ctx); err != nil {
			keepJournals(context.WithoutCancel(ctx), k.machines)
			fmt.Fprintf(k.progress, "FAIL %v\n", err)
			return err
		}
		if err := k.progress.Close(); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// takeLock takes the lock that says that a keeper runs, and writes the process id to its file.
func takeLock() (*os.File, error) {
	file, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("a cluster runs already: %w", err), file.Close())
	}
	return file, errors.Join(file.Truncate(0), os.WriteFile(lockFile, []byte(strconv.Itoa(os.Getpid())), 0o600))
}

// bringUp runs the stages and prints a line for each.
func (k *keeper) bringUp(ctx context.Context) error {
	for _, s := range k.stages() {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(k.progress, "ok   %s (%.1f s)\n", s.name, time.Since(began).Seconds())
	}
	return nil
}

// serveImages makes the network of the nodes, and opens the registry there.
func (k *keeper) serveImages(ctx context.Context) error {
	err := netdevice.RaiseLoopback()
	if err != nil {
		return err
	}
	var addresses []string
	for _, n := range k.plan.networks() {
		addresses = append(addresses, n.prefix(n.keeper))
	}
	if k.bridge, err = netdevice.AddBridge("cluster0", addresses...); err != nil {
		return err
	}
	images, err := k.plan.images(ctx)
	if err != nil {
		return err
	}
	r, err := registry.Open(ctx, registryPort, images)
	if err != nil {
		return err
	}
	k.undo = append(k.undo, r.Close)
	return nil
}

// boot starts the machines.
func (k *keeper) boot(ctx context.Context) error {
	for _, n := range k.plan.nodes() {
		opts := debian.Options{Root: k.plan.Root, Dir: k.plan.machineDir(n.name), Share: k.plan.share()}
		m, err := debian.Boot(ctx, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		k.undo = append(k.undo, m.Close)
		k.machines[n.name] = m
		if err := k.bridge.Connect(n.name, m.PID(), "eth0"); err != nil {
			return err
		}
	}
	return nil
}

// openAPI forwards the port of 127.0.0.1 to the API server, and writes the files for the cluster's users.
func (k *keeper) openAPI(ctx context.Context) error {
	listener, err := net.FileListener(os.NewFile(fdListener, "listener"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		forward(ctx, listener, k.plan.apiServer())
	}()
	k.undo = append(k.undo, func() error {
		cancel()
		<-done
		return nil
	})
	pids := map[string]int{}
	for name, m := range k.machines {
		pids[name] = m.PID()
	}
	if err := program.WriteJSON(nodesFile, pids); err != nil {
		return err
	}
	return k.writeKubeconfig(ctx, kubeconfigFile, "https://"+listener.Addr().String())
}

// close undoes all steps, the last one first, and removes the cluster's files.
func (k *keeper) close() error {
	return errors.Join(program.Undo(k.undo), removeState(k.plan.Dir))
}

// removeState removes the files of a cluster that has ended. Logs stay.
func removeState(dir string) error {
	errs := []error{os.RemoveAll(dir)}
	for _, file := range []string{kubeconfigFile, kubectlFile, nodesFile, planFile} {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keepJournals leaves the end of each node's log beside keeper.log.
func keepJournals(ctx context.Context, machines map[string]*debian.Machine) {
	for name, m := range machines {
		path := filepath.Join(stateDir, name+".log")
		if err := os.WriteFile(path, []byte(m.Journal(ctx)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// keepLogs is keepJournals for the running cluster.
func keepLogs(ctx context.Context) error {
	machines, err := runningNodes()
	if err == nil {
		keepJournals(ctx, machines)
	}
	return err
}

// runningNodes returns the machines of the running cluster.
func runningNodes() (map[string]*debian.Machine, error) {
	pids, err := program.ReadJSON[map[string]int](nodesFile)
	if err != nil {
		return nil, err
	}
	machines := map[string]*debian.Machine{}
	for name, pid := range pids {
		machines[name] = debian.Running(pid)
	}
	return machines, nil
}
