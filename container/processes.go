package container

import "github.com/criadapter/criadapter/internal/proctable"

// procsController is a controller of cgroup v1 in which every engine makes a cgroup for each container.
const procsController = "memory"

// processesOf lists the processes of the container that has the process pid. If the container's cgroup is not visible,
// it lists all processes of the node. Processes that end meanwhile are left out.
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
