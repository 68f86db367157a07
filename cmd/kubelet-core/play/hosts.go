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
		err := hostsfile.Update(hostsfile.Path(root, pod.UID), func(have []byte) []byte {
			own, _, _ := bytes.Cut(have, []byte(hostsMark))
			return append(bytes.Clone(own), added...)
		})
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
