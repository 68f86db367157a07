package userns

import (
	"fmt"
	"maps"
	"sync"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
)

const (
	// Length is the number of ids of a pod: 0 to 65535, as processes expect.
	Length = 1 << 16
	// first is the first id of pods, above the host's own ids. ranges is the number of ranges in 32 bits, without the
	// first and the last one. The last range contains the id that means "no id".
	first, ranges = Length, 1<<16 - 2
)

// Manager keeps the ranges. It is safe for concurrent use.
type Manager struct {
	path string

	mu   sync.Mutex
	pods map[types.UID]uint32 // the first id of each pod's range
}

// Open reads the ranges of pods; a missing file has none. An unreadable file is an error: with new ranges, running pods
// might share ids. The file may be removed if no pod with a user namespace is left.
func Open(path string) (*Manager, error) {
	m := &Manager{path: path, pods: map[types.UID]uint32{}}
	_, err := jsonfile.Read(path, &m.pods)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("ids of pods' user namespaces: %w",
			jsonfile.Advise(path, err, "remove the file when no pod with hostUsers: false is left"))
	}
	return m, nil
}

// check refuses ranges that Allocate never makes.
func (m *Manager) check() error {
	holders := map[uint32]types.UID{}
	for uid, id := range m.pods {
		if id%Length != 0 || id < first || id >= first+ranges*Length {
			return fmt.Errorf("pod %s has ids from %d on, which is not the start of a range", uid, id)
		}
		if other, taken := holders[id]; taken {
			return fmt.Errorf("pods %s and %s have the same ids", uid, other)
		}
		holders[id] = uid
	}
	return nil
}

// Find returns the first id of a pod's range.
func (m *Manager) Find(uid types.UID) (id uint32, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, found = m.pods[uid]
	return id, found
}

// Allocate returns the first id of a pod's range. The pod has the range until Keep drops it. A repeated call returns
// the same range.
func (m *Manager) Allocate(uid types.UID) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.pods[uid]; ok {
		return id, nil
	}
	taken := map[uint32]bool{}
	for id := range maps.Values(m.pods) {
		taken[id] = true
	}
	for i := range uint32(ranges) {
		id := uint32(first) + i*Length
		if taken[id] {
			continue
		}
		m.pods[uid] = id
		if err := m.save(); err != nil {
			delete(m.pods, uid)
			return 0, err
		}
		return id, nil
	}
	return 0, fmt.Errorf("all %d ranges of ids for user namespaces are in use: %w", ranges,
		errdefs.ErrResourceExhausted)
}

// Keep drops the ranges of pods that do not exist.
func (m *Manager) Keep(exists func(types.UID) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := maps.Clone(m.pods)
	maps.DeleteFunc(m.pods, func(uid types.UID, _ uint32) bool { return !exists(uid) })
	if len(m.pods) == len(before) {
		return nil
	}
	if err := m.save(); err != nil {
		m.pods = before
		return err
	}
	return nil
}

// save writes the file. The caller holds mu.
func (m *Manager) save() error { return jsonfile.Save(m.path, "ids of pods' user namespaces", m.pods) }
