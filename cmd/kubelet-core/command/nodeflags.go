package command

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet"
)

// defaultPort is the default port of the kubelet core's API. A kubelet uses 10250.
const defaultPort = 10350

// nodeFlags are the flags whose values need parsing.
type nodeFlags struct {
	headers, taints []string
	reserved        map[string]string
}

// add defines the flags for pods of a URL and of an API server.
func (f *nodeFlags) add(flags *pflag.FlagSet, opts *kubelet.Options) {
	flags.StringVar(&opts.ManifestURL, "manifest-url", "", "a `URL` with pod manifests")
	flags.StringArrayVar(&f.headers, "manifest-url-header", nil,
		"a `key:value` header for requests to --manifest-url; may be repeated")
	flags.DurationVar(&opts.ManifestURLCheck, "http-check-frequency", 0,
		"how often --manifest-url is read (default 20s)")
	flags.StringVar(&opts.Cluster.Kubeconfig, "kubeconfig", "",
		"the `file` with the API server of the cluster to join, and this node's credentials")
	flags.StringToStringVar(&opts.Cluster.Labels, "node-labels", nil, "`labels` of a new node")
	flags.StringSliceVar(&f.taints, "register-with-taints", nil, "`taints` of a new node, key=value:effect")
	flags.IntVar(&opts.Cluster.MaxPods, "max-pods", 0, "how many pods the node runs (default 110)")
	flags.StringToStringVar(&f.reserved, "system-reserved", nil,
		"`resources` that are reserved, such as cpu=200m,memory=500Mi; all pods together get the rest")
	flags.DurationVar(&opts.Cluster.StatusEvery, "node-status-update-frequency", 0,
		"how often the node's status is computed (default 10s)")
	flags.StringVar(&opts.API.Address, "address", "", "the `address` of the kubelet's API (default: all)")
	flags.Int32Var(&opts.API.Port, "port", defaultPort,
		"the port of the kubelet's API, 0 for no API; without --client-ca-file the default is 0")
	flags.StringVar(&opts.API.ClientCAFile, "client-ca-file", "",
		"the `file` with the CA certificates of the API's clients")
	flags.StringSliceVar(&opts.API.Users, "client-users", nil,
		"`names` of clients that may use the API: the common names of their certificates; without --client-users "+
			"and --client-groups, the API server of --kubeconfig decides by SubjectAccessReview")
	flags.StringSliceVar(&opts.API.Groups, "client-groups", nil,
		"`groups` of clients that may use the API: the organizations of their certificates")
	flags.StringVar(&opts.API.CertFile, "tls-cert-file", "",
		"the API's certificate `file` (default: a self-signed one)")
	flags.StringVar(&opts.API.KeyFile, "tls-private-key-file", "", "the API's key `file`")
	flags.StringVar(&opts.API.CertDir, "cert-dir", "", "the `directory` for a self-signed pair (default ROOT-DIR/pki)")
}

// complete parses the values into opts.
func (f *nodeFlags) complete(flags *pflag.FlagSet, opts *kubelet.Options) error {
	if opts.API.ClientCAFile == "" && !flags.Changed("port") {
		opts.API.Port = 0
	}
	for i, header := range f.headers {
		key, value, ok := strings.Cut(header, ":")
		if !ok || strings.TrimSpace(key) == "" {
			return fmt.Errorf("--manifest-url-header: number %d is not key:value", i+1) // the value may be a secret
		}
		if opts.ManifestHeader == nil {
			opts.ManifestHeader = http.Header{}
		}
		opts.ManifestHeader.Add(strings.TrimSpace(key), strings.TrimSpace(value))
	}
	for _, text := range f.taints {
		taint, err := parseTaint(text)
		if err != nil {
			return fmt.Errorf("--register-with-taints: %w", err)
		}
		opts.Cluster.Taints = append(opts.Cluster.Taints, taint)
	}
	for name, text := range f.reserved {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("--system-reserved %s=%s: %w", name, text, err)
		}
		if opts.Cluster.Reserved == nil {
			opts.Cluster.Reserved = v1.ResourceList{}
		}
		opts.Cluster.Reserved[v1.ResourceName(name)] = quantity
	}
	return nil
}

// parseTaint parses key=value:effect or key:effect.
func parseTaint(text string) (v1.Taint, error) {
	pair, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	taint := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	switch taint.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		if ok && key != "" {
			return taint, nil
		}
	}
	return v1.Taint{}, fmt.Errorf(
		"%q is not key=value:effect with the effect NoSchedule, PreferNoSchedule or NoExecute", text)
}
