package imagemanager

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
)

// Access records with which credentials this node pulled its images (KEP-2535). It is safe for concurrent use.
type Access struct {
	path string

	mu   sync.Mutex
	file accessFile
	// active counts this process's pulls by the image's name. stale are the names with a pull of unknown outcome, such
	// as one that a crash cut off.
	active map[string]int
	stale  map[string]bool
}

// accessFile is the checkpoint. It has keyed hashes of the logins, not the logins.
type accessFile struct {
	Key []byte `json:"key"`
	// Images are by id.
	Images map[string]imageAccess `json:"images"`
	// Pulling are the names of images whose pull is under way, or was under way when an earlier process crashed.
	Pulling map[string]bool `json:"pulling,omitempty"`
}

// imageAccess says who may use an image.
type imageAccess struct {
	// Preloaded images were on the machine before this node pulled them.
	Preloaded bool `json:"preloaded,omitempty"`
	// Marks are the credentials that have pulled the image, by its name without tag and digest. A mark is everyPod,
	// "login HASH" or "secret UID".
	Marks map[string][]string `json:"marks"`
	// pulled is when this process last pulled the image, zero if it did not.
	pulled time.Time
}

// everyPod is the mark of a pull without credentials, or with credentials of the node.
const everyPod = "every pod"

// OpenAccess reads the checkpoint at path. A missing one is empty.
func OpenAccess(path string) (*Access, error) {
	a := &Access{path: path, file: accessFile{Images: map[string]imageAccess{}, Pulling: map[string]bool{}},
		active: map[string]int{}, stale: map[string]bool{}}
	found, err := jsonfile.Read(path, &a.file)
	if err == nil && !found {
		a.file.Key = make([]byte, sha256.Size)
		_, err := rand.Read(a.file.Key)
		return a, err
	}
	if err == nil && (len(a.file.Key) == 0 || a.file.Images == nil) {
		err = errors.New("it lacks the key or the images")
	}
	if err != nil {
		return nil, fmt.Errorf("access to images: %w",
			jsonfile.Advise(path, err, "remove the file, then all pods may use the images that are present"))
	}
	if a.file.Pulling == nil {
		a.file.Pulling = map[string]bool{}
	}
	a.stale = maps.Clone(a.file.Pulling)
	return a, nil
}

// marks returns the marks of a pull with the credential c. A nil c means a pull without credentials.
func (a *Access) marks(c *credential) []string {
	if c == nil || c.node {
		return []string{everyPod}
	}
	login := hmac.New(sha256.New, a.file.Key)
	fmt.Fprintf(login, "%d %s%s", len(c.GetUsername()), c.GetUsername(), c.GetPassword())
	marks := []string{"login " + hex.EncodeToString(login.Sum(nil))}
	if c.secret != "" {
		marks = append(marks, "secret "+c.secret)
	}
	return marks
}

// begin records that a pull of an image is under way, so that a crash leaves no image that counts as preloaded. It
// reports whether the outcome of an earlier pull is unknown.
func (a *Access) begin(name string) (unfinished bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active[name]++
	if a.file.Pulling[name] {
		return a.stale[name], nil
	}
	a.file.Pulling[name] = true
	if err := a.save(); err != nil {
		a.end(name)
		return false, err
	}
	return false, nil
}

// failed records that a pull has failed. If known is false, the outcome is unknown: the runtime may have the image.
func (a *Access) failed(name string, known bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !known {
		a.stale[name] = true
	}
	a.end(name)
	return a.save()
}

// pulled records that an image was pulled with a credential, nil for none.
func (a *Access) pulled(name, id string, used *credential, preloaded bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stale, name)
	a.end(name)
	image, known := a.file.Images[id]
	if !known {
		image = imageAccess{Preloaded: preloaded, Marks: map[string][]string{}}
	}
	repository := repositoryOf(name)
	marks := slices.Concat(image.Marks[repository], a.marks(used))
	slices.Sort(marks)
	image.Marks[repository] = slices.Compact(marks)
	image.pulled = time.Now()
	a.file.Images[id] = image
	return a.save()
}

// end ends one pull of a name. The caller holds mu.
func (a *Access) end(name string) {
	if a.active[name]--; a.active[name] > 0 {
		return
	}
	delete(a.active, name)
	if !a.stale[name] { // the name stays while an earlier pull's outcome is unknown
		delete(a.file.Pulling, name)
	}
}

// repositoryOf returns an image's name without tag and digest. It returns any other text unchanged.
func repositoryOf(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return named.Name()
}

// preloaded reports whether an image counts as preloaded: it was on the machine before this node pulled it, or no pull
// of it is recorded.
func (a *Access) preloaded(name, id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	image, known := a.file.Images[id]
	return image.Preloaded || !known && !a.file.Pulling[name]
}

// allows reports whether a pod with these credentials may use an image without another pull.
func (a *Access) allows(name, id string, credentials []credential) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	marks := a.file.Images[id].Marks[repositoryOf(name)]
	has := func(mark string) bool { return slices.Contains(marks, mark) }
	return has(everyPod) || slices.ContainsFunc(credentials, func(c credential) bool {
		return slices.ContainsFunc(a.marks(&c), has)
	})
}

// keep forgets images that are gone. present is from a list that was requested at the time listed. Images that were
// pulled later may be missing there, so they stay.
func (a *Access) keep(present func(id string) bool, listed time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.file.Images)
	maps.DeleteFunc(a.file.Images, func(id string, image imageAccess) bool {
		return image.pulled.Before(listed) && !present(id)
	})
	if len(a.file.Images) == before {
		return nil
	}
	return a.save()
}

// save replaces the file. The caller holds mu.
func (a *Access) save() error { return jsonfile.Save(a.path, "access to images", a.file) }
