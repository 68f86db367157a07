// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler for tests, with their own
// certificates. They run in the network namespace of the caller. Each control plane has a bridge with an address there,
// and listens only on that address.
package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/netdevice"
	"github.com/criadapter/criadapter/test/process"
)

const (
	// ServiceRange has the cluster addresses of services. Nothing routes packets to them.
	ServiceRange = "10.96.0.0/24"
	// startTimeout bounds the time until everything is ready; ten seconds are usual.
	startTimeout = 2 * time.Minute

	apiPort        = "6443"
	etcdPort       = "2379"
	peerPort       = "2380"
	controllerPort = "10257"
	schedulerPort  = "10259"
)

// Options say which control plane to run. Programs and Dir are required.
type Options struct {
	Programs build.Programs
	// Dir is an empty directory for all files of the control plane.
	Dir string
	// Number is part of the address. Control planes in one network namespace need different numbers.
	Number uint8
	// WithoutAdmission are admission plugins that the API server leaves out.
	WithoutAdmission []string
}

// ControlPlane is a running control plane. Its methods must not be called concurrently.
type ControlPlane struct {
	// Dir has all files. LogDir in it has the logs.
	Dir, LogDir string
	// Address is the listening address of all programs, and the address for a node. Pods can reach it.
	Address string
	// URL is the address of the API server.
	URL string
	// Authority signs the cluster's further certificates.
	Authority *Authority
	// Admin is a kubeconfig file with all rights. Token is a bearer token with the same rights.
	Admin, Token string

	programs         build.Programs
	withoutAdmission []string
	link             *netdevice.Bridge
	clients          *http.Client
	serving          Pair
	kubeletClient    Pair
	serviceAccount   string // key file
	etcd             *process.Process
	apiServer        *process.Process
	controllers      *process.Process
	scheduler        *process.Process
}

// Start brings a control plane up and returns when all of it is ready. Stop must be called unless there is an error.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	c := &ControlPlane{Dir: opts.Dir, LogDir: filepath.Join(opts.Dir, "logs"), programs: opts.Programs,
		withoutAdmission: opts.WithoutAdmission}
	c.Address = fmt.Sprintf("10.89.%d.1", opts.Number)
	c.URL = "https://" + net.JoinHostPort(c.Address, apiPort)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("control plane: %w", err), c.Stop())
		}
	}()
	if err := os.Mkdir(c.LogDir, 0o755); err != nil {
		return nil, err
	}
	if c.link, err = netdevice.AddBridge(fmt.Sprintf("cluster-node%d", opts.Number), c.Address+"/24"); err != nil {
		return nil, err
	}
	if err := c.makeCertificates(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	return c, c.StartAPIServer(ctx)
}

// makeCertificates makes the authority, the API server's files, and the client certificates of the API server and of
// the administrator.
func (c *ControlPlane) makeCertificates() (err error) {
	if c.Authority, err = NewAuthority(c.Dir, "ca"); err != nil {
		return err
	}
	if c.serving, err = c.Authority.Server("control-plane", c.Address, "127.0.0.1",
		"kubernetes.default.svc"); err != nil {
		return err
	}
	// The kubelet asks the API server whether this client may make its requests.
	if c.kubeletClient, err = c.Authority.Client("kube-apiserver-kubelet-client", "system:masters"); err != nil {
		return err
	}
	c.serviceAccount = filepath.Join(c.Dir, "service-account.key")
	if _, err := writeKey(c.serviceAccount); err != nil {
		return err
	}
	if c.Admin, err = c.Kubeconfig("admin", "system:masters"); err != nil {
		return err
	}
	c.Token = rand.Text()
	if err := os.WriteFile(c.tokens(), []byte(c.Token+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		return err
	}
	ca, err := os.ReadFile(c.Authority.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c.clients = &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
	}
	return nil
}

// Kubeconfig makes a client certificate for a user, and returns the path of a kubeconfig with it.
func (c *ControlPlane) Kubeconfig(user string, groups ...string) (string, error) {
	pair, err := c.Authority.Client(user, groups...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir, fileName(user)+".kubeconfig")
	return path, Kubeconfig(path, c.URL, c.Authority.CAFile, pair)
}

// Kubectl runs kubectl as cluster administrator and returns its output. It may be called concurrently.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.programs.Kubectl, args...)
	// kubectl keeps its cache of the API under the home directory.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Admin, "HOME="+c.Dir)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %v: %w\n%s", args, err, output)
	}
	return string(output), nil
}

// AwaitNode waits until a node is registered, and then until it is Ready. Each wait takes at most limit.
func (c *ControlPlane) AwaitNode(ctx context.Context, name string, limit time.Duration) error {
	for _, condition := range []string{"--for=create", "--for=condition=Ready"} {
		if _, err := c.Kubectl(ctx, "wait", condition, "node/"+name, "--timeout="+limit.String()); err != nil {
			return err
		}
	}
	return nil
}

// tokens is the file with the tokens that the API server accepts.
func (c *ControlPlane) tokens() string { return filepath.Join(c.Dir, "tokens.csv") }

func (c *ControlPlane) log(name string) string { return filepath.Join(c.LogDir, name+".log") }

func (c *ControlPlane) startEtcd() (err error) {
	clients, peers := "http://"+net.JoinHostPort(c.Address, etcdPort), "http://"+net.JoinHostPort(c.Address, peerPort)
	c.etcd, err = process.Start(c.log("etcd"), nil, c.programs.Etcd,
		"--data-dir", filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers,
		"--unsafe-no-fsync", // the data need not survive a crash of the machine
		"--log-level", "warn")
	return err
}

// StartAPIServer starts the API server with the controllers and the scheduler, also after KillAPIServer, and returns
// when they are ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The API server waits for etcd.
	args := []string{
		"--etcd-servers", "http://" + net.JoinHostPort(c.Address, etcdPort),
		"--bind-address", c.Address, "--advertise-address", c.Address, "--secure-port", apiPort,
		"--tls-cert-file", c.serving.CertFile, "--tls-private-key-file", c.serving.KeyFile,
		"--client-ca-file", c.Authority.CAFile, "--token-auth-file", c.tokens(),
		"--kubelet-certificate-authority", c.Authority.CAFile,
		"--kubelet-client-certificate", c.kubeletClient.CertFile, "--kubelet-client-key", c.kubeletClient.KeyFile,
		"--kubelet-preferred-address-types", "InternalIP",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", c.serviceAccount, "--service-account-signing-key-file", c.serviceAccount,
		"--service-cluster-ip-range", ServiceRange,
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--allow-privileged", "--profiling=false", "--v", "1",
	}
	if len(c.withoutAdmission) > 0 {
		args = append(args, "--disable-admission-plugins", strings.Join(c.withoutAdmission, ","))
	}
	if c.apiServer, err = process.Start(c.log("kube-apiserver"), nil, c.programs.APIServer, args...); err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return c.get(ctx, c.URL+"/readyz") }
	if err := c.apiServer.Await(ctx, ready); err != nil {
		return err
	}
	return c.startControllers(ctx)
}

// KillAPIServer ends the API server as a crash would. It also ends the scheduler and the controllers, because they
// would end by themselves without an API server.
func (c *ControlPlane) KillAPIServer() {
	for _, one := range []*process.Process{c.apiServer, c.scheduler, c.controllers} {
		one.Kill()
	}
}

// startControllers starts the controller manager and the scheduler beside each other.
func (c *ControlPlane) startControllers(ctx context.Context) error {
	controllers, err := c.Kubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := c.Kubeconfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	serving := []string{
		"--bind-address", c.Address, "--tls-cert-file", c.serving.CertFile, "--tls-private-key-file", c.serving.KeyFile,
		"--leader-elect=false", "--profiling=false", "--v", "1",
	}
	c.controllers, err = process.Start(c.log("kube-controller-manager"), nil, c.programs.ControllerManager,
		append(serving, "--secure-port", controllerPort, "--kubeconfig", controllers,
			"--use-service-account-credentials", "--service-account-private-key-file", c.serviceAccount,
			"--root-ca-file", c.Authority.CAFile)...)
	if err != nil {
		return err
	}
	c.scheduler, err = process.Start(c.log("kube-scheduler"), nil, c.programs.Scheduler,
		append(serving, "--secure-port", schedulerPort, "--kubeconfig", scheduler)...)
	if err != nil {
		return err
	}
	for one, port := range map[*process.Process]string{c.controllers: controllerPort, c.scheduler: schedulerPort} {
		ready := func(ctx context.Context) error {
			return c.get(ctx, "https://"+net.JoinHostPort(c.Address, port)+"/healthz")
		}
		if err := one.Await(ctx, ready); err != nil {
			return err
		}
	}
	return nil
}

// get asks for a page that needs no rights, and fails unless the answer is 200.
func (c *ControlPlane) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := c.clients.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return nil
}

// Failure returns an error for each program that has ended, including programs that KillAPIServer ended. It returns nil
// if all run.
func (c *ControlPlane) Failure() error {
	var errs []error
	for _, one := range []*process.Process{c.etcd, c.apiServer, c.controllers, c.scheduler} {
		select {
		case <-one.Ended():
			errs = append(errs, one.Failure())
		default:
		}
	}
	return errors.Join(errs...)
}

// Stop ends all programs, in the reverse order of their starts, and removes the bridge. The files stay.
func (c *ControlPlane) Stop() error {
	for _, one := range []*process.Process{c.scheduler, c.controllers, c.apiServer, c.etcd} {
		if one != nil {
			one.Kill() // nothing needs the programs' state later, and some take long to end after SIGTERM
		}
	}
	if c.link == nil {
		return nil
	}
	return c.link.Remove()
}
