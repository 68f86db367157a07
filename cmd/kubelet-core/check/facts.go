package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/nodelock"
	"github.com/criadapter/criadapter/kubelet/podconfig"
)

// askTime bounds the requests to the runtime.
const askTime = 5 * time.Second

// facts are the facts about a node that matter to a kubelet.
type facts struct {
	opts kubelet.Options
	// optsErr is the error with which a start would refuse the options.
	optsErr error
	root    bool
	// runtime is the runtime's name and version, and runtimeErr says why it does not answer.
	runtime    string
	runtimeErr error
	conditions []*runtimeapi.RuntimeCondition
	// driver is the cgroup driver that the runtime reports, empty for none.
	driver string
	// kubeletErr names a kubelet on this machine.
	kubeletErr error
	// pods is the number of pods in the manifests, and problems are the errors by file.
	pods        int
	problems    map[string]error
	manifestErr error
	host        cgroup.Host
	hostErr     error
	// resolvErr says why the resolv.conf file cannot be read.
	resolvErr error
	// listenErr says why the read-only endpoint cannot be opened. A running kubelet core may use the address.
	listenErr error
	disks     []checklist.Disk
}

// Run checks this node for a kubelet with these options, and returns a report.
func Run(ctx context.Context, opts kubelet.Options) checklist.Report { return judge(gather(ctx, opts)) }

func gather(ctx context.Context, opts kubelet.Options) facts {
	f := facts{root: os.Geteuid() == 0}
	f.opts, f.optsErr = opts.Completed()
	f.askRuntime(ctx)
	if !f.opts.BesideKubelet {
		f.kubeletErr = nodelock.NoKubelet(ctx, f.opts.NodeIPs)
	}
	if f.opts.Manifests != "" {
		f.pods, f.problems, f.manifestErr = podconfig.CheckDirectory(f.opts.Manifests, f.opts.NodeName)
	}
	f.host, f.hostErr = cgroup.Inspect()
	_, f.resolvErr = os.ReadFile(cmp.Or(f.opts.ResolvConf, "/etc/resolv.conf"))
	f.listenErr = tryListen(ctx, f.opts.ReadAddress)
	for _, dir := range []string{f.opts.RootDir, f.opts.PodLogsDir} {
		f.disks = append(f.disks, checklist.DiskOf(dir))
	}
	return f
}

// askRuntime sends the CRI requests that a kubelet sends at its start.
func (f *facts) askRuntime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	runtime, err := cri.Connect(ctx, cri.Options{
		Endpoint: f.opts.RuntimeEndpoint, ImageEndpoint: f.opts.ImageEndpoint, Timeout: askTime, Owner: f.opts.Owner,
	})
	if err != nil {
		f.runtimeErr = err
		return
	}
	defer runtime.Close(context.WithoutCancel(ctx))
	f.runtime = runtime.Name + " " + runtime.Version
	f.driver, err = runtime.CgroupDriver(ctx)
	var status *runtimeapi.StatusResponse
	if err == nil {
		status, err = runtime.Status(ctx, false)
	}
	if err != nil {
		f.runtimeErr = err
		return
	}
	f.conditions = status.GetStatus().GetConditions()
}

// tryListen opens a listener at the address and closes it. It returns the reason if this fails.
func tryListen(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%s is in use", address)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}
