package imagemanager

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dockerHub is the host of Docker Hub in credentials. Short image names are on Docker Hub.
const dockerHub = "index.docker.io"

// credential is a login for a registry.
type credential struct {
	*runtimeapi.AuthConfig
	// secret is the UID of the pull secret that has the login, empty without one.
	secret string
	// node says that the login is from a file of the node.
	node bool
}

// credentials returns the matching credentials of the pod's pull secrets, followed by the credentials of the node's
// files. Within a secret or a file, the most specific come first. A missing secret, a secret of another type and an
// unreadable file are recorded as events and left out: the image may not need them. A malformed secret is an error.
func (p *Puller) credentials(r Request) ([]credential, error) {
	if (p.opts.Secrets == nil || len(r.Pod.Spec.ImagePullSecrets) == 0) && len(p.opts.Files) == 0 {
		return nil, nil
	}
	named, err := reference.ParseNormalizedNamed(r.Image)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w: %w", r.Image, err, errdefs.ErrInvalidArgument)
	}
	found, err := p.ofSecrets(r, named)
	if err != nil {
		return nil, err
	}
	for _, path := range p.opts.Files {
		logins, err := parseFile(path)
		if err != nil {
			r.Record("FailedToReadImagePullCredentials",
				fmt.Sprintf("Unable to read the credentials in %s, pulling without them: %v", path, err))
		}
		for _, auth := range lookup(logins, named) {
			found = append(found, credential{AuthConfig: auth, node: true})
		}
	}
	return found, nil
}

// ofSecrets returns the matching credentials of the pod's pull secrets.
func (p *Puller) ofSecrets(r Request, named reference.Named) ([]credential, error) {
	if p.opts.Secrets == nil {
		return nil, nil
	}
	var found []credential
	for _, ref := range r.Pod.Spec.ImagePullSecrets {
		secret, err := p.pullSecret(r.Pod, ref.Name)
		if err != nil {
			r.Record("FailedToRetrieveImagePullSecret",
				fmt.Sprintf("Unable to retrieve image pull secret %q, pulling without it: %v", ref.Name, err))
			continue
		}
		logins, err := parseSecret(secret)
		if err != nil {
			return nil, fmt.Errorf("imagePullSecrets: secret %q: %w", ref.Name, err)
		}
		for _, auth := range lookup(logins, named) {
			found = append(found, credential{AuthConfig: auth, secret: string(secret.UID)})
		}
	}
	return found, nil
}

// pullSecret returns a secret of one of Docker's two types.
func (p *Puller) pullSecret(pod *v1.Pod, name string) (*v1.Secret, error) {
	secret, err := p.opts.Secrets.Secret(pod, name)
	if err != nil {
		return nil, err
	}
	if t := secret.Type; t != v1.SecretTypeDockerConfigJson && t != v1.SecretTypeDockercfg {
		return nil, fmt.Errorf("type: %q is neither %s nor %s", t, v1.SecretTypeDockerConfigJson,
			v1.SecretTypeDockercfg)
	}
	return secret, nil
}

// login is a user of a registry, or of a part of it.
type login struct {
	// place is where the login is valid: a host with globs in its parts, and optionally a port and a prefix of the
	// path.
	place          *url.URL
	user, password string
}

// entry is one registry in Docker's configuration file.
type entry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
}

// parseFile reads the logins of Docker's configuration file. A missing file has no logins.
func parseFile(path string) ([]login, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseConfig(text)
}

// parseSecret reads the logins of a secret in one of Docker's two formats, the most specific first. Errors do not quote
// secret data.
func parseSecret(secret *v1.Secret) ([]login, error) {
	key, parse := v1.DockerConfigJsonKey, parseConfig
	if secret.Type == v1.SecretTypeDockercfg {
		key, parse = v1.DockerConfigKey, parseOldConfig
	}
	logins, err := parse(secret.Data[key])
	if err != nil {
		return nil, fmt.Errorf("data[%s]: %w", key, err)
	}
	return logins, nil
}

// errNoConfig replaces the error of package json, which may quote secret data.
var errNoConfig = fmt.Errorf("it is not a Docker configuration in JSON: %w", errdefs.ErrInvalidArgument)

// parseConfig reads the text of Docker's configuration file.
func parseConfig(text []byte) ([]login, error) {
	var file struct {
		Auths map[string]entry `json:"auths"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errNoConfig
	}
	return parseEntries(file.Auths)
}

// parseOldConfig reads the text of Docker's old configuration file, .dockercfg.
func parseOldConfig(text []byte) ([]login, error) {
	var entries map[string]entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, errNoConfig
	}
	return parseEntries(entries)
}

// parseEntries converts entries by the registry's name, the most specific first.
func parseEntries(entries map[string]entry) ([]login, error) {
	var logins []login
	for _, server := range slices.Sorted(maps.Keys(entries)) {
		if entries[server] == (entry{}) {
			continue // a credential helper has the login
		}
		login, err := entries[server].login(server)
		if err != nil {
			return nil, fmt.Errorf("registry %q: %w: %w", server, err, errdefs.ErrInvalidArgument)
		}
		logins = append(logins, login)
	}
	// In descending order a longer path comes before its prefix.
	slices.SortStableFunc(logins, func(a, b login) int {
		return strings.Compare(b.place.Host+b.place.Path, a.place.Host+a.place.Path)
	})
	return logins, nil
}

// login converts an entry. server is the registry's name in the file: a host, or a URL as older Docker versions wrote
// it.
func (e entry) login(server string) (login, error) {
	if !strings.HasPrefix(server, "https://") && !strings.HasPrefix(server, "http://") {
		server = "https://" + server
	}
	place, err := url.Parse(server)
	if err != nil {
		return login{}, errors.New("it is not the address of a registry")
	}
	for _, version := range []string{"/v1/", "/v2/"} {
		if rest, ok := strings.CutPrefix(place.Path, version); ok {
			place.Path = "/" + rest
		}
	}
	l := login{place: place, user: e.Username, password: e.Password}
	if e.Auth == "" {
		return l, nil
	}
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(e.Auth, "=\r\n")) // padded or not
	if err != nil {
		return login{}, errors.New("auth is not base64")
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return login{}, errors.New(`auth is not the base64 form of "user:password"`)
	}
	l.user, l.password = user, strings.Trim(password, "\x00")
	return l, nil
}

// lookup returns the logins that are valid for an image.
func lookup(logins []login, image reference.Named) []*runtimeapi.AuthConfig {
	var found, hub []*runtimeapi.AuthConfig
	for _, l := range logins {
		// The server's address is left out, because it may have globs.
		auth := &runtimeapi.AuthConfig{Username: l.user, Password: l.password}
		if l.holds(reference.Domain(image), "/"+reference.Path(image)) {
			found = append(found, auth)
		}
		if l.place.Host == dockerHub && slices.Contains([]string{"", "/", "/v1"}, l.place.Path) {
			hub = append(hub, auth)
		}
	}
	if len(found) == 0 && reference.Domain(image) == "docker.io" {
		return hub
	}
	return found
}

// holds reports whether a login is valid for a registry and a path in it.
func (l login) holds(registry, repository string) bool {
	pattern, patternPort := splitPort(l.place.Host)
	host, port := splitPort(registry)
	patternParts, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if patternPort != port || len(patternParts) != len(parts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(patternParts[i], parts[i]); err != nil || !ok {
			return false
		}
	}
	return l.place.Path == "" || strings.HasPrefix(repository, l.place.Path)
}

func splitPort(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, ""
	}
	return host, port
}
