package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Origin is the place of a static pod.
type Origin struct {
	// Source is model.SourceFile or model.SourceHTTP.
	Source string
	// Location is the file's path or the URL.
	Location string
	// NodeName is this node's name.
	NodeName string
	// Seen is when the pod was read.
	Seen time.Time
}

// Static turns the pod of a manifest into a static pod of this node, as the kubelet does. The node's name is appended
// to the pod's name, so that mirror pods of several nodes do not collide. A missing UID becomes a hash of the pod and
// its origin. So the same manifest is the same pod after a restart, and an edited manifest is a new pod. Annotations
// name the origin.
func Static(pod *v1.Pod, origin Origin) error {
	if pod.Name == "" {
		return fmt.Errorf("metadata.name: it is required")
	}
	if pod.UID == "" {
		uid, err := staticUID(pod, origin)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	if origin.NodeName != "" {
		pod.Name += "-" + strings.ToLower(origin.NodeName)
	}
	pod.Spec.NodeName = origin.NodeName
	delete(pod.Annotations, model.AnnotationConfigMirror) // only mirror pods have this annotation
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, model.AnnotationConfigHash, string(pod.UID))
	pod.Annotations[model.AnnotationConfigSource] = origin.Source
	pod.Annotations[model.AnnotationConfigSeen] = origin.Seen.Format(time.RFC3339Nano)
	pod.Annotations[model.AnnotationManifest] = origin.Location
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	return nil
}

// staticUID returns 32 hexadecimal digits, the kubelet's form. The kubelet hashes a dump of its Go structs, which may
// differ between versions. JSON is stable.
func staticUID(pod *v1.Pod, origin Origin) (types.UID, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(text)
	fmt.Fprintf(hash, "\nnode %s\n%s %s", origin.NodeName, origin.Source, origin.Location)
	return types.UID(hex.EncodeToString(hash.Sum(nil)[:16])), nil
}
