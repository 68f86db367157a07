package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/pause"
)

const (
	// probeLabel marks probe containers. Its value is the process id of the criadapter that made them. Their names
	// begin with probeName.
	probeLabel = "io.criadapter.probe"
	probeName  = "criadapter-probe-"
	// probeGroup is a group id that a container can get only from its note.
	probeGroup = 4_242_424
	// probeMount is where a probe mounts the notes' directory.
	probeMount = "/notes"
	// probeSubmounts is a directory that has a writable mount below it on every node: /dev/pts. A probe mounts the
	// directory twice.
	probeSubmounts = "/dev"
	probeWritable  = "/mnt/writable"
	probeRecursive = "/mnt/recursive"
	// probeAge is the age from which a probe container counts as left over, even if a process has its label's id.
	probeAge = time.Minute
)

// probe tests an OCI runtime with short-lived containers.
type probe struct {
	api      *client.Client
	runtime  OCIRuntime
	engineID string
	// arch is the engine's architecture, in GOARCH terms.
	arch    string
	selinux bool
}

// tidyNotes removes unfinished notes, and notes of containers that another client has removed. The engine has a
// directory below its data root for each container. tidyNotes asks the engine only about containers without a
// directory, because a list of thousands of containers takes a second.
func (p probe) tidyNotes(ctx context.Context, notes ocinote.Dir, root string) error {
	if err := notes.Sweep(); err != nil {
		return err
	}
	containers := filepath.Join(root, "containers")
	if _, err := os.Stat(containers); err != nil {
		return err
	}
	noted, err := notes.List()
	for _, id := range noted {
		if _, statErr := os.Stat(filepath.Join(containers, id)); statErr == nil {
			continue
		}
		if note, loadErr := notes.Load(id); loadErr != nil || note.Engine != p.engineID {
			continue
		}
		if _, gone := p.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); errdefs.IsNotFound(gone) {
			err = errors.Join(err, notes.Remove(id))
		}
	}
	return err
}

// tidyProbes removes probe containers whose maker has ended, and probe containers older than probeAge.
func (p probe) tidyProbes(ctx context.Context) error {
	list, err := p.api.ContainerList(ctx,
		client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", probeLabel)})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		_, gone := os.Stat(filepath.Join("/proc", c.Labels[probeLabel]))
		if gone == nil && time.Since(time.Unix(c.Created, 0)) <= probeAge {
			continue
		}
		ours, ownErr := p.isProbe(ctx, c)
		if err = errors.Join(err, ownErr); ours {
			err = errors.Join(err, p.remove(ctx, c.ID))
		}
	}
	return err
}

// isProbe reports whether a container with probeLabel is a probe. Containers of other images or pods may have the
// label, but never the label together with a probe's name and image. The list may show the image by its id, so isProbe
// inspects the container.
func (p probe) isProbe(ctx context.Context, c container.Summary) (bool, error) {
	if !slices.ContainsFunc(c.Names, func(name string) bool { return strings.HasPrefix(name, "/"+probeName) }) {
		return false, nil
	}
	inspect, err := p.api.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil && inspect.Container.Config != nil && inspect.Container.Config.Image == pause.Reference, err
}

// create creates a container from the built-in sandbox image. It loads the image if the engine lacks it.
func (p probe) create(
	ctx context.Context, options client.ContainerCreateOptions,
) (client.ContainerCreateResult, error) {
	created, err := p.api.ContainerCreate(ctx, options)
	if !errdefs.IsNotFound(err) {
		return created, err
	}
	if err := p.loadImage(ctx); err != nil {
		return created, err
	}
	return p.api.ContainerCreate(ctx, options)
}

func (p probe) loadImage(ctx context.Context) error {
	archive, err := pause.Archive(p.arch)
	if err != nil {
		return err
	}
	answer, err := p.api.ImageLoad(ctx, bytes.NewReader(archive), client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("load the built-in sandbox image: %w", err)
	}
	defer func() { _ = answer.Close() }()
	return followTransfer(decodeMessages(answer), newTransferred(Features{}), nil)
}

// proveGroup starts a container whose note adds probeGroup, and checks that its process has the group.
func (p probe) proveGroup(ctx context.Context) error {
	return p.run(ctx, p.groupNote(), nil, p.lookForGroup)
}

// groupNote is the note of proveGroup. GroupsOf finds no groups in the built-in image, but a criadapter-oci that is too
// old to know the field does not start the container.
func (p probe) groupNote() ocinote.Note {
	return ocinote.Note{Engine: p.engineID, Process: ocinote.Process{Groups: &[]uint32{probeGroup}, GroupsOf: "0"}}
}

// proveRecursive is proveGroup with a mount that the note makes recursively read-only (rro). A runtime without that
// option may ignore it, so proveRecursive checks the container's mounts.
func (p probe) proveRecursive(ctx context.Context) error {
	note := p.groupNote()
	note.MountOptions = map[string][]string{probeRecursive: {"rro"}}
	mounts := []mount.Mount{
		{Type: mount.TypeBind, Source: probeSubmounts, Target: probeWritable},
		{
			Type: mount.TypeBind, Source: probeSubmounts, Target: probeRecursive, ReadOnly: true,
			BindOptions: &mount.BindOptions{ReadOnlyNonRecursive: true}, // only the note may make it recursive
		},
	}
	return p.run(ctx, note, mounts, func(pid int) error {
		if err := p.lookForGroup(pid); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
		if err != nil {
			return err
		}
		return checkRecursive(string(text))
	})
}

// checkRecursive fails unless the mount at probeRecursive and all mounts below it have the option ro. The same
// directory is mounted at probeWritable, too. At least one mount below it must be writable there. Otherwise the result
// would not show that the option rro works.
func checkRecursive(mountinfo string) error {
	writable := map[string]bool{}
	var readOnly []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 6 { // proc(5): field 5 is the mount point, field 6 the options of the mount
			continue
		}
		place, options := fields[4], strings.Split(fields[5], ",")
		if below, ok := strings.CutPrefix(place, probeWritable+"/"); ok {
			writable[below] = slices.Contains(options, "rw")
		}
		below, isBelow := strings.CutPrefix(place, probeRecursive+"/")
		if !isBelow && place != probeRecursive {
			continue
		}
		if !slices.Contains(options, "ro") {
			return fmt.Errorf("the mount at %s is writable below a recursively read-only mount", place)
		}
		if isBelow {
			readOnly = append(readOnly, below)
		}
	}
	if !slices.ContainsFunc(readOnly, func(below string) bool { return writable[below] }) {
		return fmt.Errorf(
			"%s of the node has no writable mount below it, so recursive read-only mounts cannot be shown to work",
			probeSubmounts)
	}
	return nil
}

// run starts a container with a note and mounts, calls look with its process id, and removes it.
func (p probe) run(ctx context.Context, note ocinote.Note, mounts []mount.Mount, look func(pid int) error) (err error) {
	name := probeName + rand.Text()
	created, err := p.create(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{
			Image: pause.Reference, NetworkDisabled: true,
			Labels: map[string]string{probeLabel: strconv.Itoa(os.Getpid())},
		},
		HostConfig: &container.HostConfig{
			Runtime: p.runtime.Name, NetworkMode: "none", IpcMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: mounts,
		},
	})
	settling := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(ctx), probeAge)
	}
	if err != nil {
		settle, cancel := settling()
		defer cancel()
		// The engine may have created the container, and only its answer was lost. If this removal fails, tidyProbes
		// removes the container later.
		_ = p.remove(settle, name)
		return err
	}
	defer func() {
		settle, cancel := settling()
		defer cancel()
		err = errors.Join(err, p.remove(settle, created.ID), p.runtime.Notes.Remove(created.ID))
	}()
	if err := p.runtime.Notes.Save(created.ID, note); err != nil {
		return err
	}
	if _, err := p.api.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	inspect, err := p.api.ContainerInspect(ctx, created.ID, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	if inspect.Container.State == nil {
		return fmt.Errorf("the engine does not describe container %s", created.ID)
	}
	return look(inspect.Container.State.Pid)
}

// lookForGroup fails if the process lacks the group of its note.
func (p probe) lookForGroup(pid int) error {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return err
	}
	groups, _ := statusField(string(status), "Groups")
	if slices.Contains(strings.Fields(groups), strconv.Itoa(probeGroup)) {
		return nil
	}
	return fmt.Errorf("a container of the runtime %s was started without the settings of its note in %s",
		p.runtime.Name, p.runtime.Notes)
}

func (p probe) remove(ctx context.Context, id string) error {
	_, err := p.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return err
}
