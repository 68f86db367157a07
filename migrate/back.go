package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/google/renameio/v2"
	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/logs"
)

// Return is the plan for a node that goes back to cri-dockerd. Print shows it.
type Return struct {
	pods []*returned
	// lost are pods that cri-dockerd cannot know: they hold resources but have no sandbox container.
	lost []string
}

// returned is one pod on its way back.
type returned struct {
	id, name string
	record   checkpoint.Record
	config   *runtimeapi.PodSandboxConfig
	sandbox  *container.InspectResponse
	// links are the logs of running containers that become links to the engine's files again.
	links []*logPlan
	// ours says that criadapter created the sandbox.
	ours bool
	// frozen are running containers whose output cri-dockerd cannot show, because the engine keeps it in another
	// format.
	frozen []string
}

// PlanReturn plans the return of all our pods. Pods that never had a sandbox container must be removed first.
func (n *Node) PlanReturn(ctx context.Context) (*Return, error) {
	list, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	listing, err := n.opts.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	members := map[string][]string{}
	for _, c := range list {
		if translate.KindOf(c) == translate.KindContainer {
			sandbox := c.Labels[translate.LabelSandboxID]
			members[sandbox] = append(members[sandbox], c.ID)
		}
	}
	plan := &Return{}
	for _, record := range listing.Records {
		pod, err := n.planReturn(ctx, record, members[record.SandboxID])
		if err != nil {
			return nil, err
		}
		if pod.sandbox == nil && record.Namespaces != nil {
			plan.lost = append(plan.lost, pod.name)
			continue
		}
		plan.pods = append(plan.pods, pod)
	}
	slices.SortStableFunc(plan.pods, func(a, b *returned) int { return cmp.Compare(a.name, b.name) })
	return plan, nil
}

func (n *Node) planReturn(ctx context.Context, record checkpoint.Record, members []string) (*returned, error) {
	pod := &returned{id: record.SandboxID, name: record.Namespace + "/" + record.Name, record: record,
		config: &runtimeapi.PodSandboxConfig{}}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(record.Config, pod.config); err != nil {
		return nil, fmt.Errorf("the record of pod %s: %w", pod.name, err)
	}
	var err error
	if pod.sandbox, err = n.inspect(ctx, record.SandboxID); err != nil {
		return nil, err
	}
	pod.ours = pod.sandbox != nil && translate.MadeByUs(pod.sandbox.Config.Labels)
	for _, id := range members {
		inspect, err := n.inspectMember(ctx, id)
		if err != nil {
			return nil, err
		}
		pod.addLog(inspect)
	}
	return pod, nil
}

// addLog adds the log of a running container, unless the log is a link. After an interrupted ApplyReturn there may be
// no log.
func (r *returned) addLog(inspect *container.InspectResponse) {
	if !isRunning(inspect) || inspect.HostConfig == nil {
		return
	}
	path := translate.LogPath(inspect.Config.Labels)
	if !isMissing(path) && !isRegular(path) {
		return
	}
	name := containerName(inspect)
	if inspect.HostConfig.LogConfig.Type != logs.DriverJSONFile {
		r.frozen = append(r.frozen, name)
		return
	}
	r.links = append(r.links, &logPlan{container: name, path: path, engine: inspect.LogPath, id: inspect.ID})
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// isMissing reports whether a path does not exist although its directory exists.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	_, dirErr := os.Stat(filepath.Dir(path))
	return path != "" && errors.Is(err, fs.ErrNotExist) && dirErr == nil
}

// Print writes the plan: a table with one pod per line, and then remarks on pods.
func (r *Return) Print(to io.Writer) error {
	out := &printer{to: to}
	out.line("%d pods are to be handed to cri-dockerd\n", len(r.pods))
	if len(r.pods) > 0 {
		out.table("POD\tSANDBOX\tSTATE\tLOGS LINKED AGAIN", func(row func(...any)) {
			for _, pod := range r.pods {
				var names []string
				for _, l := range pod.links {
					names = append(names, l.container)
				}
				row(pod.name, pod.id[:min(len(pod.id), 12)], stateName(isRunning(pod.sandbox)),
					cmp.Or(strings.Join(names, ", "), "-"))
			}
		})
	}
	for _, pod := range r.pods {
		if pod.ours {
			out.line(
				"%s: criadapter has made this pod. A container that cri-dockerd starts in it lacks the pod's "+
					"resolv.conf. Delete the pod when you can\n", pod.name)
		}
		if len(pod.frozen) > 0 {
			out.line(
				"%s: kubectl logs shows nothing new of %s until these containers are created anew: the "+
					"engine keeps their output in a format that cri-dockerd does not read\n",
				pod.name, strings.Join(pod.frozen, ", "))
		}
	}
	for _, name := range r.lost {
		out.line("%s: has no sandbox container, and cri-dockerd would not know it: remove it before --apply\n", name)
	}
	return out.err
}

// ApplyReturn executes a plan, pod by pod. It can be repeated. The records stay, so the node can go back to criadapter
// at any time.
func (n *Node) ApplyReturn(ctx context.Context, plan *Return) error {
	if len(plan.lost) > 0 {
		return fmt.Errorf("pods without a sandbox container cannot be handed over, remove them first: %s: %w",
			strings.Join(plan.lost, ", "), errdefs.ErrFailedPrecondition)
	}
	var errs []error
	for _, pod := range plan.pods {
		if err := n.handBack(pod); err != nil {
			errs = append(errs, fmt.Errorf("handing pod %s to cri-dockerd: %w", pod.name, err))
		}
	}
	return errors.Join(errs...)
}

func (n *Node) handBack(pod *returned) error {
	errs := []error{n.writeCheckpoint(pod), n.returnAttachment(pod)}
	for _, l := range pod.links {
		errs = append(errs, logs.Relink(l.engine, l.root(), l.path))
	}
	if path := pod.record.NetnsPath; path != "" { // otherwise the namespace would outlive the pod
		errs = append(errs, netns.Open(path).Unpin())
	}
	return errors.Join(errs...)
}

// writeCheckpoint writes cri-dockerd's checkpoint of a pod that has none. A checkpoint of dockershim does not count:
// cri-dockerd reads only its own directory.
func (n *Node) writeCheckpoint(pod *returned) error {
	content, err := json.Marshal(newCheckpoint(pod.config, pod.onHost()))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range n.checkpointDirs() {
		if _, err := os.Stat(filepath.Join(dir, pod.id)); err == nil {
			continue
		}
		errs = append(errs, os.MkdirAll(dir, 0o755),
			renameio.WriteFile(filepath.Join(dir, pod.id), content, 0o600, renameio.WithTempDir(dir)))
	}
	return errors.Join(errs...)
}

// checkpointDirs returns the directories that cri-dockerd may read. One is below the first of its root directories. The
// other is below OwnRoot, if cri-dockerd has used it. Both programs have the flag --cri-dockerd-root-directory, so they
// may share a root directory.
func (n *Node) checkpointDirs() []string {
	var dirs []string
	if len(n.opts.RootDirectories) > 0 {
		dirs = append(dirs, filepath.Join(n.opts.RootDirectories[0], shimDir))
	}
	own := filepath.Join(n.opts.OwnRoot, shimDir)
	if info, err := os.Stat(own); n.opts.OwnRoot != "" && err == nil && info.IsDir() && !slices.Contains(dirs, own) {
		dirs = append(dirs, own)
	}
	return dirs
}

// onHost reports whether the pod uses the node's network. If its sandbox container is gone, the configuration in its
// record decides.
func (r *returned) onHost() bool {
	if r.sandbox != nil && r.sandbox.HostConfig != nil {
		return r.sandbox.HostConfig.NetworkMode.IsHost()
	}
	return r.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// returnAttachment copies the pod's CNI cache entry to cri-dockerd's cache, for its DEL.
func (n *Node) returnAttachment(pod *returned) error {
	if len(n.opts.CNICacheDirs) == 0 || pod.record.NetnsPath == "" {
		return nil
	}
	attachment, err := cni.FindAttachment([]string{n.opts.CNICacheDir}, pod.id)
	if err != nil || attachment == nil {
		return err
	}
	path := ""
	if isRunning(pod.sandbox) {
		path = fmt.Sprintf("/proc/%d/ns/net", pod.sandbox.State.Pid)
	}
	return attachment.CopyTo(n.opts.CNICacheDirs[0], path)
}
