package play

import (
	"bytes"
	"errors"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/hostsfile"
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
		path := hostsfile.Path(root, pod.UID)
		have, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		own, _, _ := bytes.Cut(have, []byte(hostsMark))
		if err == nil {
			err = hostsfile.Write(path, append(bytes.Clone(own), added...))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
