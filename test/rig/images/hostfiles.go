package images

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// errStatic is the error for a static program. The shell of a static busybox would run applets that a test has hidden.
var errStatic = errors.New("is static")

// hostProgram is a dynamically linked program of the host with all that it needs to run elsewhere.
type hostProgram struct {
	// path is where the program is on the host.
	path string
	// needs are the host paths of its loader and, recursively, its libraries, each under the name that the loader
	// looks for.
	needs []string
}

// readHostProgram finds the libraries of the program at path. It returns an error for a static program.
func readHostProgram(path string) (hostProgram, error) {
	loader, err := interpreter(path)
	if err != nil {
		return hostProgram{}, err
	}
	program := hostProgram{path: path, needs: []string{loader}}
	dirs := libraryDirs(loader)
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		names, err := importedLibraries(queue[0])
		if err != nil {
			return hostProgram{}, err
		}
		for _, name := range names {
			if name == filepath.Base(loader) {
				continue
			}
			library, err := findLibrary(dirs, name)
			if err != nil {
				return hostProgram{}, fmt.Errorf("%s needs %s: %w", queue[0], name, err)
			}
			if !slices.Contains(program.needs, library) {
				program.needs = append(program.needs, library)
				queue = append(queue, library)
			}
		}
	}
	return program, nil
}

// interpreter returns the path of the loader that the ELF program at path asks for.
func interpreter(path string) (string, error) {
	binary, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer binary.Close()
	for _, segment := range binary.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(name, 0); err != nil {
			return "", fmt.Errorf("%s: read the loader's name: %w", path, err)
		}
		// The segment is a C string.
		return string(name[:max(0, len(name)-1)]), nil
	}
	return "", fmt.Errorf("%s %w", path, errStatic)
}

func importedLibraries(path string) ([]string, error) {
	binary, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer binary.Close()
	names, err := binary.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

// libraryDirs are the directories that the loader searches by default. Debian's directories come first: they have the
// architecture in their names, like the loader's real path. The directories of other distributions follow.
func libraryDirs(loader string) []string {
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	if real, err := filepath.EvalSymlinks(loader); err == nil {
		triplet := filepath.Base(filepath.Dir(real))
		dirs = append([]string{filepath.Join("/lib", triplet), filepath.Join("/usr/lib", triplet)}, dirs...)
	}
	return dirs
}

func findLibrary(dirs []string, name string) (string, error) {
	for _, dir := range dirs {
		candidate := filepath.Join(dir, name)
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", errors.New("not found in the loader's directories")
}
