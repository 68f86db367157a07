package apitest

import (
	"bytes"
	"encoding/json"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// protobufMagic is the prefix of an object in protocol buffers, which clients over the network send.
var protobufMagic = []byte("k8s\x00")

// inJSON converts a request's body to JSON, unless it is JSON.
func inJSON(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, protobufMagic) {
		return body, nil
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, coordination.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	object, _, err := protobuf.NewSerializer(scheme, scheme).Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return json.Marshal(object)
}
