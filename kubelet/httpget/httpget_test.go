package httpget

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPath takes every path that the kubelet takes, one that is no URL as it stands.
func TestPath(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"", "http://10.0.0.1:80"},
		{"/", "http://10.0.0.1:80/"},
		{"healthz", "http://10.0.0.1:80/healthz"},
		{"/a?b=c#d", "http://10.0.0.1:80/a?b=c#d"},
		{"/%zz", "http://10.0.0.1:80/%25zz"},
		{"a:b", "http://10.0.0.1:80/a:b"},
	} {
		request, err := Request(t.Context(), &v1.HTTPGetAction{Path: c.path, Port: intstr.FromInt32(80)}, &v1.Container{}, "10.0.0.1", "test")
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
		} else if got := request.URL.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
}
