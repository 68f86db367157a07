package nodeapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func TestMain(m *testing.M) {
	// The streaming library logs each error that it sends to a client.
	klog.SetLogger(logr.Discard())
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// patience bounds each wait of a test.
const patience = testutil.Patience

// authority signs certificates.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// file has its certificate.
	file string
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testutil.Must(t, err)
	cert, err := x509.ParseCertificate(raw)
	testutil.Must(t, err)
	a := &authority{t: t, key: key, cert: cert, file: filepath.Join(t.TempDir(), name+".crt")}
	writeFile(t, a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	return a
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	testutil.Must(t, os.WriteFile(path, content, 0o600))
}

// issue signs a client's certificate, which edit may change. It returns certificate and key as PEM.
func (a *authority) issue(name string, edit func(*x509.Certificate)) (certificate, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if edit != nil {
		edit(template)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	testutil.Must(a.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	testutil.Must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(
		&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// runtime has a running container "c" in pod ns/pod. A streaming URL is the result of give, or url if give is nil.
type runtime struct {
	figures
	url      string
	give     func(request any) (string, error)
	log      string
	execSync func(ctx context.Context, cmd []string) (stdout, stderr []byte, err error)
	asked    chan any
	failing  error
}

func (r *runtime) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return []*runtimeapi.Container{
		{Id: "c1", Image: &runtimeapi.ImageSpec{UserSpecifiedImage: "i"}, Labels: labels("c")}}, r.failing
}

func (r *runtime) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return []*runtimeapi.PodSandbox{{Id: "s1", Labels: labels("")},
		{Id: "s2", Labels: map[string]string{model.LabelPodUID: "other"}}}, r.failing
}

func labels(container string) map[string]string {
	return map[string]string{model.LabelPodNamespace: "ns", model.LabelPodName: "pod", model.LabelPodUID: "u",
		model.LabelContainerName: container}
}

func (r *runtime) PodStatus(_ context.Context, uid types.UID) (*model.PodStatus, error) {
	if r.failing != nil || uid != "u" {
		return &model.PodStatus{}, r.failing
	}
	return &model.PodStatus{
		Sandboxes: []model.SandboxStatus{{ID: "s1", Ready: true}},
		Containers: []model.ContainerStatus{
			{ID: "c1", Name: "c", State: model.StateRunning, LogPath: r.log},
			{ID: "c0", Name: "c", State: model.StateExited, LogPath: r.log + ".before"},
			{ID: "t1", Name: "terminal", State: model.StateRunning},
			{ID: "e1", Name: "ended", State: model.StateExited},
		},
	}, nil
}

func (r *runtime) Exec(_ context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	url, err := r.stream(request)
	return &runtimeapi.ExecResponse{Url: url}, err
}

func (r *runtime) Attach(_ context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	url, err := r.stream(request)
	return &runtimeapi.AttachResponse{Url: url}, err
}

func (r *runtime) PortForward(
	_ context.Context, request *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	url, err := r.stream(request)
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// stream records a request and returns its URL.
func (r *runtime) stream(request any) (string, error) {
	r.asked <- request
	if r.give != nil {
		return r.give(request)
	}
	return r.url, r.failing
}

func (r *runtime) ExecSync(
	ctx context.Context, _ string, cmd []string, _ time.Duration,
) (stdout, stderr []byte, err error) {
	return r.execSync(ctx, cmd)
}

// somePods returns ns/pod with containers in all states, an earlier pod of that name, and a pod that the runtime does
// not have.
func somePods() []*v1.Pod {
	pod := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{
			Name: "c", ContainerID: "docker://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			LastTerminationState: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{ContainerID: "docker://c0"}},
		},
		{Name: "pulling",
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: model.ReasonImagePullBackOff}}},
		{Name: "ended", ContainerID: "docker://e1",
			State: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{Reason: "Error", ContainerID: "docker://e1"}}},
		{Name: "removed",
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "docker://r1"}}},
		{Name: "lost", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}},
	}}}
	pod.Namespace, pod.Name, pod.UID = "ns", "pod", "u"
	for _, name := range []string{"c", "pulling", "ended", "removed", "lost", "new"} {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
	}
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "terminal", TTY: true})
	gone := pod.DeepCopy()
	gone.Name, gone.UID = "gone", "gone"
	before := pod.DeepCopy()
	before.UID, before.Status.Phase = "before", v1.PodFailed
	return []*v1.Pod{before, pod, gone}
}

// api is an API that ends with the test, with an allowed client.
type api struct {
	*API
	t         testing.TB
	authority *authority
	stop      func()
	// config is the allowed client's configuration.
	config *rest.Config
	client *http.Client
}

// fixedIPs returns a function IPs of APIOptions.
func fixedIPs(ips ...string) func() []string { return func() []string { return ips } }

func startAPI(t testing.TB, r *runtime, edit func(*APIOptions)) *api {
	t.Helper()
	if r.asked == nil {
		r.asked = make(chan any, 1000)
	}
	a := &api{t: t, authority: newAuthority(t, "clients")}
	opts := APIOptions{
		Address: "127.0.0.1:0", CertDir: filepath.Join(t.TempDir(), "pki"), NodeName: "node",
		IPs:          fixedIPs("127.0.0.1"),
		ClientCAFile: a.authority.file, Users: []string{"kube-apiserver"}, Runtime: r,
		Reads: Reads{
			Config: Config{Node: "node"}, Pods: somePods, Healthy: healthy, RuntimeErr: healthy, Stats: r,
			Evented: func() bool { return true },
		},
	}
	if edit != nil {
		edit(&opts)
	}
	var err error
	a.API, err = ListenTLS(opts)
	testutil.Must(t, err)
	a.stop = testutil.Background(t, a.Run)
	certificate, key := a.authority.issue("kube-apiserver", nil)
	a.config = &rest.Config{Host: "https://" + a.Address(), TLSClientConfig: rest.TLSClientConfig{
		CertData: certificate, KeyData: key, CAFile: filepath.Join(opts.CertDir, certificateName), ServerName: "node",
	}}
	a.client = a.clientWith(certificate, key)
	return a
}

// clientWith returns a client with a certificate, or without one. It does not check the server's certificate.
func (a *api) clientWith(certificate, key []byte) *http.Client {
	a.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		testutil.Must(a.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// do sends a request and returns the answer.
func (a *api) do(client *http.Client, method, path string, header ...string) (code int, body string) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), method, "https://"+a.Address()+path, nil)
	testutil.Must(a.t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(request)
	testutil.Must(a.t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	testutil.Require(a.t, err == nil, "%s: %v", path, err)
	return answer.StatusCode, string(content)
}

func (a *api) get(path string) (code int, body string) {
	a.t.Helper()
	return a.do(a.client, http.MethodGet, path)
}
