package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// oomScorePasses is the largest number of passes over the processes of a container. A process that is forked during a
// pass may have its parent's old score.
const oomScorePasses = 3

// setOOMScore sets the oom_score_adj of every process of a running container. The engine sets the score of the first
// process at the start, so this is for updates only. Processes that criadapter may not change keep their score, and a
// warning is logged: the other limits of a pod's resize matter more.
func (s *Service) setOOMScore(
	ctx context.Context, c *state.Container, field string, wanted *runtimeapi.LinuxContainerResources,
) (undo func(), err error) {
	asked, started := wanted.GetOomScoreAdj(), int64(c.Meta.OOMScore)
	raised := asked < 0 && started == 0 // see translate.OOMScore
	if asked == c.Status.Resources.GetLinux().GetOomScoreAdj() && (asked == started || raised) {
		return func() {}, nil
	}
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return func() {}, err
	}
	score := translate.OOMScore(wanted, features)
	before := map[int]string{}
	undo = func() {
		for pid, old := range before {
			if err := writeOOMScore(pid, old); err != nil {
				log.G(ctx).WithError(err).WithFields(c.LogFields()).Warn("cannot restore oom_score_adj")
			}
		}
	}
	var denied error
	for range oomScorePasses {
		var changed bool
		if changed, denied, err = s.oomScorePass(c, strconv.Itoa(score), before); err != nil {
			undo()
			return func() {}, fmt.Errorf("%s.oom_score_adj: %w", field, err)
		}
		if !changed {
			break
		}
	}
	if denied != nil {
		log.G(ctx).WithError(denied).WithFields(c.LogFields()).WithField("wanted", score).
			Warn("oom_score_adj of a process stays as it was: criadapter needs CAP_SYS_RESOURCE to lower it")
	}
	return undo, nil
}

// oomScorePass changes each process that has another score. It adds the old score of the process to the map before,
// unless an earlier pass has added one. denied is the error if criadapter may not change a score.
func (s *Service) oomScorePass(
	c *state.Container, score string, before map[int]string,
) (changed bool, denied, err error) {
	for _, pid := range s.pidsOf(c) {
		old, err := os.ReadFile(oomScoreFile(pid))
		if err != nil || strings.TrimSpace(string(old)) == score {
			continue
		}
		switch err := writeOOMScore(pid, score); {
		case errors.Is(err, fs.ErrPermission):
			denied = err
			continue
		case err != nil:
			return false, nil, err
		}
		if _, known := before[pid]; !known {
			before[pid] = strings.TrimSpace(string(old))
		}
		changed = true
	}
	return changed, denied, nil
}

// pidsOf lists the processes in a container's cgroup. If the cgroup cannot be seen, it lists only the first process.
func (s *Service) pidsOf(c *state.Container) []int {
	if s.opts.Cgroups != nil {
		dir, _, err := s.opts.Cgroups.CgroupDir(c.ID, c.Status.PID, procsController)
		if err == nil {
			return proctable.OfCgroup(dir)
		}
	}
	return []int{c.Status.PID}
}

func oomScoreFile(pid int) string {
	return filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj")
}

// writeOOMScore changes one process. It also succeeds if the process has ended.
func writeOOMScore(pid int, score string) error {
	defer step.At("OOM score: write")()
	err := os.WriteFile(oomScoreFile(pid), []byte(score), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
