package container

import "github.com/criadapter/criadapter/internal/proctable"

// procsController is a controller whose cgroups of version 1 every engine puts containers into.
const procsController = "memory"

// processesOf lists the processes of the container that has the process pid. They are in its cgroup; where the cgroup
// is not visible they are all of the node's. Processes that end meanwhile are left out.
func (s *Service) processesOf(containerID string, pid int) ([]proctable.Stat, error) {
	if s.opts.Cgroups != nil {
		dir, _, err := s.opts.Cgroups.CgroupDir(containerID, pid, procsController)
		if err == nil {
			if pids := proctable.OfCgroup(dir); len(pids) > 0 {
				return proctable.ReadAll(pids), nil
			}
		}
	}
	return proctable.All()
}
