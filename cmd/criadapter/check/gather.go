package check

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/image/trust"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/nri"
)

// Options say what to check. Config is required and valid.
type Options struct {
	Config config.Config
	// KubeletConfig is the kubelet's configuration file, empty for kubeadm's, if there is one.
	KubeletConfig string
}

// Run checks this node and returns a report. It changes nothing. It takes about a minute if every step runs into its
// timeout, or less if ctx ends.
func Run(ctx context.Context, opts Options) checklist.Report { return judgeNode(gather(ctx, opts)) }

// kubeadmKubelet is kubeadm's configuration file of the kubelet.
const kubeadmKubelet = "/var/lib/kubelet/config.yaml"

// Timeouts of steps that may hang.
const (
	engineTime = 20 * time.Second
	askTime    = 5 * time.Second
	pluginTime = 10 * time.Second
)

// gather reads the facts of this node.
func gather(ctx context.Context, opts Options) facts {
	f := facts{Config: opts.Config}
	f.Kubelet = readKubelet(opts.KubeletConfig)
	f.Missing = missingCapabilities()
	f.Network = readNetwork(ctx, opts.Config)
	f.Mirrors, f.ContainerdMirrors = readMirrors("/")
	if opts.Config.ImagePolicy != "" {
		f.ImagePolicyErr = trust.Check(opts.Config.ImagePolicy)
	}
	f.NRIPlugins, f.NRIErr = nri.Plugins(opts.Config.NRIPluginDir)
	engine := gatherEngine(ctx, &f, status.CheckStarted(opts.Config.DockerEndpoint))
	f.EngineSocket = socketAt(strings.TrimPrefix(opts.Config.DockerEndpoint, "unix://"))
	f.CRI = askCRI(ctx, opts.Config.SocketPath())
	f.Others = otherRuntimes(ctx, otherSockets(), opts.Config.SocketPath())
	f.Disks = readDisks(f)
	f.Kernel = readKernel("/")
	f.Left = findLeftovers(ctx, f, engine)
	return f
}

// readMirrors returns the registries that have a hosts.toml below root/etc: for the engine, or for containerd alone.
func readMirrors(root string) (engine, containerd []string) {
	engine = configuredHosts(filepath.Join(root, "etc/docker/certs.d"))
	for _, host := range configuredHosts(filepath.Join(root, "etc/containerd/certs.d")) {
		if !slices.Contains(engine, host) {
			containerd = append(containerd, host)
		}
	}
	return engine, containerd
}

// configuredHosts returns the names of the directories in dir that have a hosts.toml.
func configuredHosts(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "hosts.toml")) // Glob fails only for a bad pattern
	var hosts []string
	for _, file := range files {
		hosts = append(hosts, filepath.Base(filepath.Dir(file)))
	}
	return hosts
}

// pods are the pods of a node.
type pods struct {
	// all are the ids of all containers of the engine, including foreign ones, and of the pods without a sandbox
	// container.
	all map[string]bool
	err error
}

// gatherEngine asks the engine. It does not connect if notStarted is set: systemd would start the engine
// (docker.socket), and the check must not change the node.
func gatherEngine(ctx context.Context, f *facts, notStarted error) pods {
	if notStarted != nil {
		f.EngineErr = fmt.Errorf("%s: %w", f.Config.DockerEndpoint, notStarted)
		return pods{err: f.EngineErr}
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	client, err := docker.Dial(docker.Options{
		// OCIRuntime is left out, because its test needs a container.
		Host: f.Config.DockerEndpoint, RequestTimeout: engineTime, Bridge: f.Config.Bridge(),
		LogDriver: translate.LogDriver(f.Config.ContainerLogMode == config.LogModeSymlink),
	})
	if err != nil {
		f.EngineErr = err
		return pods{err: err}
	}
	defer func() { _ = client.Close() }()
	if f.Engine, f.EngineErr = client.Features(ctx); f.EngineErr != nil {
		return pods{err: f.EngineErr}
	}
	f.OCIRuntime, f.OCIRuntimeErr = client.FindOCIRuntime(ctx)
	list, err := client.ListContainers(ctx, nil)
	found := pods{all: make(map[string]bool, len(list)), err: err}
	found.addListed(list)
	return found
}

// addListed adds the containers of a list, and the pods that they belong to.
func (p pods) addListed(list []container.Summary) {
	for _, c := range list {
		p.all[c.ID] = true
		for _, name := range c.Names {
			if _, pod, ok := translate.PodOfContainer(c.Labels, name); ok {
				p.all[pod] = true
			}
		}
	}
}

// addRecorded adds the pods without a sandbox container, which the engine does not list. An unreadable record may
// belong to such a pod.
func (p pods) addRecorded(found checkpoint.Found) {
	for _, record := range found.Records {
		if record.Namespaces != nil {
			p.all[record.SandboxID] = true
		}
	}
	for _, id := range found.Unreadable {
		p.all[id] = true
	}
}

func readNetwork(ctx context.Context, cfg config.Config) networkFacts {
	if cfg.NetworkPlugin != config.NetworkCNI {
		return networkFacts{}
	}
	ctx, cancel := context.WithTimeout(ctx, pluginTime)
	defer cancel()
	network, err := openNetwork(cfg)
	if err != nil {
		return networkFacts{Err: err}
	}
	defer network.Close()
	return networkFacts{Config: network.Config(), Plugins: network.Plugins(ctx), Err: network.Status(ctx)}
}

// openNetwork reads the configuration once and does not watch it.
func openNetwork(cfg config.Config) (*cni.Network, error) {
	return cni.New(
		cni.Options{ConfDir: cfg.CNIConfDir, BinDirs: cfg.BinDirs(), CacheDir: cfg.CacheDir(), DelOnly: true,
			Timeout: pluginTime})
}

func socketAt(path string) socketFacts {
	s := socketFacts{Path: path}
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
	case err != nil:
		s.Err = err
	case info.Mode()&os.ModeSocket == 0:
		s.Err = fmt.Errorf("it is not a socket")
	default:
		s.Mode = uint32(info.Mode().Perm())
	}
	return s
}

func askCRI(ctx context.Context, path string) socketFacts {
	if path == "" {
		return socketFacts{}
	}
	s := socketAt(path)
	if s.Mode != 0 {
		s.Answers, s.AskErr = whoAnswers(ctx, path)
	}
	return s
}

// whoAnswers returns the name of the CRI server at a socket, empty without one. criadapter reports the engine's
// name as its own, so only its status identifies it. The error is the reason for a missing status.
func whoAnswers(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := status.AskRunning(ctx, "unix://"+path)
	switch {
	case err != nil && answer.Runtime == "":
		return "", nil
	case answer.Report != nil:
		return "criadapter " + answer.Report.Version, nil
	default:
		return answer.Runtime, err
	}
}

// engineContainerd is the socket of the containerd that Docker Engine uses if it exists. With the configuration of
// Debian's package, that containerd is also a CRI server.
const engineContainerd = "/run/containerd/containerd.sock"

// otherSockets are the default sockets of CRI servers. With --docker, k3s runs cri-dockerd at a socket of its own.
func otherSockets() []string {
	return []string{
		"/run/cri-dockerd.sock", engineContainerd, "/run/crio/crio.sock",
		"/run/k3s/containerd/containerd.sock", "/run/k3s/cri-dockerd/cri-dockerd.sock",
		"/run/dockershim.sock", "/run/criadapter/criadapter.sock",
	}
}

// otherRuntimes asks the sockets of other CRI servers.
func otherRuntimes(ctx context.Context, sockets []string, own string) []runtimeFacts {
	var found []runtimeFacts
	for _, path := range sockets {
		if sameFile(path, own) || socketAt(path).Mode == 0 {
			continue
		}
		if name, err := whoAnswers(ctx, path); name != "" {
			found = append(found, runtimeFacts{Name: name, Endpoint: "unix://" + path, AskErr: err})
		}
	}
	return found
}

// sameFile reports whether two paths lead to one file, as /var/run/x and /run/x do.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return a == b
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

func readDisks(f facts) []diskFacts {
	logs := cmp.Or(f.Kubelet.PodLogsDirectory, "/var/log/pods")
	disks := []diskFacts{{"root directory", checklist.DiskOf(f.Config.RootDirectory)}}
	if f.EngineErr == nil {
		disks = append(disks, diskFacts{"images", checklist.DiskOf(f.Engine.Root)})
	}
	return append(disks, diskFacts{"pod logs", checklist.DiskOf(logs)})
}
