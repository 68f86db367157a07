package translate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/bounded"
)

// maxProfile bounds a seccomp profile, in bytes. The engine's own profile has 15 kB.
const maxProfile = 1 << 20

// ReadProfileFile implements ReadProfile with files of the node. A request may name any path, so ReadProfileFile
// refuses everything but regular files. Opening a pipe without a writer could block, and a device may be endless.
func ReadProfileFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file", path)
	}
	return bounded.ReadAll(file, path, maxProfile)
}
