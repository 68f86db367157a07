package docker

import (
	"encoding/json"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errhttp"
	"github.com/moby/moby/api/types/jsonstream"
)

// transferError gives a type to an error from a progress stream. Engines may add a status code, but 20.10 has only the
// text.
func transferError(e *jsonstream.Error) error {
	if kind := errhttp.ToNative(e.Code); hasType(kind) && !errdefs.IsInternal(kind) {
		return described{kind, e.Message}
	}
	return registryError(e.Message)
}

// pullError gives a type to the refusal of a pull before its progress stream. A missing repository or tag has the
// status 404. On 20.10, any other error of the registry or of the network has the status 500, and registryError reads
// its text.
func pullError(err error) error {
	if err == nil || !errdefs.IsInternal(err) {
		return err
	}
	return registryError(engineAnswer{err}.Error())
}

// registryMessage recognises a registry's refusal by the beginning or the end of the engine's message. Either prefix or
// suffix is set.
type registryMessage struct {
	prefix, suffix string
	kind           error
}

// registryMessages is the only place where the text of an error decides its type. It has the texts of the registry's
// error codes (OCI distribution specification), of net/http's status lines and of Go's network errors. Each text was
// seen on 20.10 unless its comment names other engines. The table is read-only.
var registryMessages = []registryMessage{
	{suffix: "no basic auth credentials", kind: errdefs.ErrUnauthenticated},
	{prefix: "unauthorized", kind: errdefs.ErrUnauthenticated},
	{suffix: ": unauthorized", kind: errdefs.ErrUnauthenticated},
	{suffix: "401 Unauthorized", kind: errdefs.ErrUnauthenticated},
	{prefix: "denied", kind: errdefs.ErrPermissionDenied},
	{suffix: "403 Forbidden", kind: errdefs.ErrPermissionDenied},
	{prefix: "toomanyrequests", kind: errdefs.ErrResourceExhausted},
	{suffix: "429 Too Many Requests", kind: errdefs.ErrResourceExhausted},
	// From engines with graph drivers. The containerd image store reports "not found".
	{prefix: "no matching manifest for ", kind: errdefs.ErrNotFound},
	// From engines with graph drivers. The containerd image store pulls artifacts.
	{prefix: "unsupported media type ", kind: ErrMediaType},
	{suffix: "500 Internal Server Error", kind: ErrRegistryUnavailable},
	{suffix: "502 Bad Gateway", kind: ErrRegistryUnavailable},
	{suffix: "503 Service Unavailable", kind: ErrRegistryUnavailable},
	{suffix: "504 Gateway Timeout", kind: ErrRegistryUnavailable},
	{suffix: "connection refused", kind: ErrRegistryUnavailable},
	{suffix: "connection reset by peer", kind: ErrRegistryUnavailable},
	{suffix: "no such host", kind: ErrRegistryUnavailable},
	{suffix: "server misbehaving", kind: ErrRegistryUnavailable},
	{suffix: "network is unreachable", kind: ErrRegistryUnavailable},
	{suffix: "no route to host", kind: ErrRegistryUnavailable},
	{suffix: "i/o timeout", kind: ErrRegistryUnavailable},
	{suffix: "TLS handshake timeout", kind: ErrRegistryUnavailable},
	{suffix: ": EOF", kind: ErrRegistryUnavailable},
	// From net/http, when a registry accepts a connection and then is silent.
	{suffix: "(Client.Timeout exceeded while awaiting headers)", kind: ErrRegistryUnavailable},
}

// registryCodes has the error codes of the OCI distribution specification about the caller's request. It is read-only.
var registryCodes = map[string]error{
	"MANIFEST_UNKNOWN": errdefs.ErrNotFound,
	"NAME_UNKNOWN":     errdefs.ErrNotFound,
	"UNAUTHORIZED":     errdefs.ErrUnauthenticated,
	"DENIED":           errdefs.ErrPermissionDenied,
	"TOOMANYREQUESTS":  errdefs.ErrResourceExhausted,
	"UNAVAILABLE":      ErrRegistryUnavailable,
}

// registryDocument reads the code out of the registry's own error document. Engine 29 passes the document on unchanged
// when the registry does not declare it as JSON. registryDocument returns nil if the message does not end in such a
// document.
func registryDocument(message string) error {
	start := strings.Index(message, `{"errors":`)
	if start < 0 {
		return nil
	}
	var document struct {
		Errors []struct{ Code string }
	}
	if err := json.Unmarshal([]byte(message[start:]), &document); err != nil || len(document.Errors) == 0 {
		return nil
	}
	return registryCodes[document.Errors[0].Code]
}

// registryError returns the error type for a message of the registry or of the network, ErrUnknown for an unknown
// message.
func registryError(message string) error {
	if kind := registryDocument(message); kind != nil {
		return described{kind, message}
	}
	for _, m := range registryMessages {
		if strings.HasPrefix(message, m.prefix) && strings.HasSuffix(message, m.suffix) {
			return described{m.kind, message}
		}
	}
	return described{errdefs.ErrUnknown, message}
}
