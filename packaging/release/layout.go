package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of the packages.
type file struct {
	// path is the installed path, without the first slash.
	path    string
	mode    fs.FileMode
	content []byte
	// link is the target of a symbolic link, empty for a plain file.
	link string
}

// links are other names of criadapter-oci. containerd runs the first as a shim, and runc's shim runs the second.
func links() []file {
	return []file{
		{path: "usr/bin/containerd-shim-criadapter-v2", link: "criadapter-oci"},
		{path: "usr/libexec/criadapter/runc", link: "../../bin/criadapter-oci"},
	}
}

// sources are the installed files of the tree with their paths. Files in cri-docker and kubelet-core belong to the
// packages of these names.
func sources() []struct{ from, to string } {
	return []struct{ from, to string }{
		{"contrib/systemd/criadapter.service", "usr/lib/systemd/system/criadapter.service"},
		{"contrib/systemd/criadapter.socket", "usr/lib/systemd/system/criadapter.socket"},
		{"packaging/criadapter/openrc", "etc/init.d/criadapter"},
		{"packaging/criadapter/config.yaml", "etc/criadapter/config.yaml"},
		{"contrib/grafana/criadapter.json", "usr/share/criadapter/grafana/criadapter.json"},
		{"contrib/prometheus/alerts.yaml", "usr/share/criadapter/prometheus/alerts.yaml"},
		{"LICENSE", "usr/share/doc/criadapter/LICENSE"},
		{"CHANGELOG.md", "usr/share/doc/criadapter/CHANGELOG.md"},
		{"contrib/systemd/kubelet-core.service", "kubelet-core/usr/lib/systemd/system/kubelet-core.service"},
		{"packaging/kubelet-core/config.yaml", "kubelet-core/etc/kubelet-core/config.yaml"},
		{"contrib/grafana/kubelet-core.json", "kubelet-core/usr/share/kubelet-core/grafana/kubelet-core.json"},
		{"LICENSE", "kubelet-core/usr/share/doc/kubelet-core/LICENSE"},
		{"packaging/cri-docker/cri-dockerd", "cri-docker/usr/bin/cri-dockerd"},
		{"packaging/cri-docker/cri-docker.service", "cri-docker/usr/lib/systemd/system/cri-docker.service"},
		{"packaging/cri-docker/cri-docker.socket", "cri-docker/usr/lib/systemd/system/cri-docker.socket"},
	}
}

// installed returns the path of a program. kubelet-core has a package of its own.
func installed(program string) string {
	if program == "kubelet-core" {
		return "kubelet-core/usr/bin/kubelet-core"
	}
	return "usr/bin/" + program
}

// layout returns all files of the packages of one architecture, sorted by path.
func (r release) layout(b build, generated []file) ([]file, error) {
	files := slices.Concat(generated, links(), []file{
		{path: "usr/share/doc/criadapter/" + termsFile, mode: 0o644, content: b.terms},
		{path: "kubelet-core/usr/share/doc/kubelet-core/" + termsFile, mode: 0o644, content: b.terms},
	})
	for _, program := range programs() {
		content, err := os.ReadFile(b.path(program))
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: installed(program), mode: 0o755, content: content})
	}
	for _, source := range sources() {
		content, err := os.ReadFile(filepath.Join(r.source, source.from))
		if err != nil {
			return nil, err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(string(content), "#!") {
			mode = 0o755
		}
		files = append(files, file{path: source.to, mode: mode, content: content})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	for i := 1; i < len(files); i++ {
		if files[i].path == files[i-1].path {
			return nil, fmt.Errorf("two files are named %s", files[i].path)
		}
	}
	return files, nil
}

// readTree reads the files below a directory, in the order of their names. Their paths begin below it.
func readTree(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, file{path: relative, mode: 0o644, content: content})
		return err
	})
	return files, err
}

// stageFiles writes files below dir, all with the same time, and with modes independent of the umask. nfpm makes the
// links of its configuration.
func stageFiles(dir string, files []file, at time.Time) error {
	for _, f := range files {
		if f.link != "" {
			continue
		}
		path := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, f.mode); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o755)
		if i := slices.IndexFunc(files, func(f file) bool { return filepath.Join(dir, f.path) == path }); i >= 0 {
			mode = files[i].mode
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}
