package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// busybox is the shell of most images, with its applets.
func busybox() Tool { return Tool{Program: "busybox", Package: "busybox"} }

// userland is the host's software that the shell images are made of.
func userland() []Tool {
	return []Tool{
		busybox(),
		// Debian's busybox is built without these two, which critest runs.
		{Program: "pgrep", Package: "procps"},
		{Program: "ipcs", Package: "util-linux"},
	}
}

const (
	passwd = `root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
www-data:x:33:33:www-data:/var/www:/bin/false
nobody:x:65534:65534:nobody:/home:/bin/false
`
	group = `root:x:0:
daemon:x:1:
www-data:x:33:
nogroup:x:65534:
`
)

// readUserland returns the files of a small root file system with a shell: busybox with its applets as hard links (so
// that hiding /bin/ls hides only ls), pgrep, ipcs, and the libraries of the three. It installs missing tools, see
// Packages.
func (h Host) readUserland(ctx context.Context) ([]entry, error) {
	tools, err := h.programs(ctx)
	if err != nil {
		return nil, err
	}
	applets, err := listApplets(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]entry{
		directory("tmp", 0o1777), directory("root", 0o700), directory("home", 0o755),
		directory("usr/bin", 0o755), directory("usr/sbin", 0o755),
		directory("var/run", 0o755), directory("var/www", 0o755), directory("var/tmp", 0o1777),
	}, tools, applets), nil
}

// readTools returns programs of the host, for the directory bin of an image, and all libraries of these programs. It
// installs missing tools, see Packages.
func readTools(ctx context.Context, tools []Tool) ([]entry, error) {
	if err := Packages(ctx, tools...); err != nil {
		return nil, err
	}
	var entries []entry
	needed := make(map[string]bool)
	for _, tool := range tools {
		path, err := dynamicProgram(ctx, tool)
		if err != nil {
			return nil, err
		}
		program, err := readHostProgram(path)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		entries = append(entries, file("bin/"+tool.Program, 0o755, content))
		for _, library := range program.needs {
			needed[library] = true
		}
	}
	for library := range needed {
		content, err := os.ReadFile(library)
		if err != nil {
			return nil, err
		}
		entries = append(entries, file(library, 0o755, content))
	}
	return entries, nil
}

// listApplets returns a hard link to busybox for each applet that no other tool provides.
func listApplets(ctx context.Context) ([]entry, error) {
	program, err := dynamicProgram(ctx, busybox())
	if err != nil {
		return nil, err
	}
	output, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", program, err)
	}
	taken := make(map[string]bool)
	for _, tool := range userland() {
		taken[tool.Program] = true
	}
	var links []entry
	for _, applet := range strings.Fields(string(output)) {
		if !taken[applet] {
			links = append(links, hardLink("bin/"+applet, "bin/busybox"))
		}
	}
	return links, nil
}

// accounts are the user and group files of an image, with lines added to each.
func accounts(morePasswd, moreGroup string) []entry {
	return []entry{
		file("etc/passwd", 0o644, []byte(passwd+morePasswd)),
		file("etc/group", 0o644, []byte(group+moreGroup)),
	}
}
