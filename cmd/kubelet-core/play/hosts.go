package play

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// hostsMark is the first line that play adds to a pod's hosts file. A kubelet core rewrites the file without these
// lines when it starts one of the pod's containers. The next call of writeHosts adds them again.
const hostsMark = "\n# Services, by kubelet-core play.\n"

// writeHosts adds lines to the hosts files of all pods, in place, because running containers have them mounted. It
// leaves out a pod without a hosts file.
func writeHosts(root string, pods []*v1.Pod, lines []string) error {
	added := hostsMark + strings.Join(lines, "\n") + "\n"
	if len(lines) == 0 {
		added = ""
	}
	var errs []error
	for _, pod := range pods {
		path := filepath.Join(model.PodDirectory(root, pod.UID), "etc-hosts")
		have, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		own, _, _ := bytes.Cut(have, []byte(hostsMark))
		if want := append(bytes.Clone(own), added...); err == nil && !bytes.Equal(have, want) {
			err = os.WriteFile(path, want, 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
