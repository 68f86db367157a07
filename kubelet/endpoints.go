package kubelet

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeapi"
	"github.com/criadapter/criadapter/kubelet/pleg"
)

// endpoints are the HTTP servers. Each is nil if it is turned off.
type endpoints struct {
	readOnly *nodeapi.Server
	nodeAPI  *nodeapi.API
}

// apiRuntime is the runtime for clients of the kubelet's API. A pod's status is at least as new as its published
// status.
type apiRuntime struct {
	*cri.Runtime
	cache *pleg.Cache
}

// PodStatus implements nodeapi.Runtime.
func (r apiRuntime) PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	return r.cache.PodStatus(ctx, uid)
}

// listen opens the endpoints. Both endpoints serve readOnly.Reads. The other fields of readOnly apply only to the
// read-only endpoint.
func listen(
	opts Options, readOnly nodeapi.Options, runtime nodeapi.Runtime, cluster *apiserver.Cluster,
) (endpoints, error) {
	server, err := listenReadOnly(readOnly)
	api, apiErr := listenNodeAPI(opts, readOnly.Reads, runtime, cluster)
	return endpoints{readOnly: server, nodeAPI: api}, errors.Join(err, apiErr)
}

func listenReadOnly(opts nodeapi.Options) (*nodeapi.Server, error) {
	if opts.Address == "" {
		return nil, nil
	}
	return nodeapi.Listen(opts)
}

func listenNodeAPI(
	kubelet Options, reads nodeapi.Reads, runtime nodeapi.Runtime, cluster *apiserver.Cluster,
) (*nodeapi.API, error) {
	opts := kubelet.API
	if opts.Port == 0 {
		return nil, nil
	}
	var reviewer nodeapi.Reviewer
	if r := cluster.Reviewer(); r != nil {
		reviewer = r
	}
	return nodeapi.ListenTLS(nodeapi.APIOptions{
		Address: net.JoinHostPort(opts.Address, strconv.Itoa(int(opts.Port))), Reads: reads, Runtime: runtime,
		CertFile: opts.CertFile, KeyFile: opts.KeyFile, CertDir: opts.CertDir, ClientCAFile: opts.ClientCAFile,
		NodeName: kubelet.NodeName, IPs: kubelet.nodeIPs.list, Users: opts.Users, Groups: opts.Groups,
		Reviewer: reviewer,
	})
}

// runReadOnly serves the read-only endpoint until ctx ends.
func (e endpoints) runReadOnly(ctx context.Context) error {
	if e.readOnly == nil {
		return nil
	}
	log.G(ctx).WithField("address", e.readOnly.Address()).Info("serving reads")
	return e.readOnly.Run(ctx)
}

// runNodeAPI serves the kubelet's API until ctx ends.
func (e endpoints) runNodeAPI(ctx context.Context) error {
	if e.nodeAPI == nil {
		return nil
	}
	log.G(ctx).WithField("address", e.nodeAPI.Address()).Info("serving the kubelet API")
	return e.nodeAPI.Run(ctx)
}

// readAddress returns the address of the read-only endpoint, or "" if the endpoint is turned off.
func (e endpoints) readAddress() string {
	if e.readOnly == nil {
		return ""
	}
	return e.readOnly.Address()
}
