package cpumanager

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
)

// take chooses n of the free CPUs: whole sockets first, then whole cores, then single CPUs, so that containers share as
// little as possible. Of equal choices, the socket or core with the fewest free CPUs comes first, so that whole sockets
// and cores stay free. It returns fewer than n if fewer are free.
func (t topology) take(free cpuset.CPUSet, n int) cpuset.CPUSet {
	taken := cpuset.New()
	for _, whole := range [][]cpuset.CPUSet{
		t.freeGroups(free, func(c core) core { return core{socket: c.socket} }),
		t.freeGroups(free, func(c core) core { return c }),
	} {
		for _, group := range whole {
			if group = group.Difference(taken); !group.IsEmpty() && taken.Size()+group.Size() <= n {
				taken = taken.Union(group)
			}
		}
	}
	singles := t.singles(free.Difference(taken))
	return taken.Union(cpuset.New(singles[:min(len(singles), n-taken.Size())]...))
}

// freeGroups returns the groups that are entirely free, sockets with the fewest free CPUs first.
func (t topology) freeGroups(free cpuset.CPUSet, group func(core) core) []cpuset.CPUSet {
	groups := map[core]cpuset.CPUSet{}
	for id, c := range t {
		groups[group(c)] = groups[group(c)].Union(cpuset.New(id))
	}
	maps.DeleteFunc(groups, func(_ core, cpus cpuset.CPUSet) bool { return !cpus.IsSubsetOf(free) })
	perSocket, _ := t.count(free)
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b core) int {
		return cmp.Or(cmp.Compare(perSocket[a.socket], perSocket[b.socket]), cmp.Compare(a.socket, b.socket),
			cmp.Compare(a.number, b.number))
	})
	var found []cpuset.CPUSet
	for _, key := range keys {
		found = append(found, groups[key])
	}
	return found
}

// singles returns the free CPUs in the order of their sockets, and within a socket in the order of their cores. Sockets
// and cores with the fewest free CPUs come first.
func (t topology) singles(free cpuset.CPUSet) []int {
	perSocket, perCore := t.count(free)
	ids := free.List()
	slices.SortStableFunc(ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(perSocket[t[a].socket], perSocket[t[b].socket]),
			cmp.Compare(t[a].socket, t[b].socket), cmp.Compare(perCore[t[a]], perCore[t[b]]),
			cmp.Compare(t[a].number, t[b].number))
	})
	return ids
}

// count counts the free CPUs by socket and by core.
func (t topology) count(free cpuset.CPUSet) (perSocket map[int]int, perCore map[core]int) {
	perSocket, perCore = map[int]int{}, map[core]int{}
	for _, id := range free.UnsortedList() {
		perSocket[t[id].socket]++
		perCore[t[id]]++
	}
	return perSocket, perCore
}
