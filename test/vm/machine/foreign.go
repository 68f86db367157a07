package machine

import (
	"context"
	"path/filepath"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
)

// userlandFile is an archive of programs of a foreign architecture (images.Host).
const userlandFile = "userland.tar"

// saveUserland writes an archive to dir. It has the programs that images are made of, and their libraries.
func saveUserland(ctx context.Context, root, dir string) error {
	const archive = "/tmp/" + userlandFile
	err := debian.Inside(ctx, root, `
		cd /
		programs="bin/busybox bin/pgrep bin/ipcs"
		libraries=$(for program in $programs; do ldd $program; done | grep -o '/lib/[^ ]*' | sort -u)
		tar --dereference --create --file `+archive+` $programs $libraries`)
	if err != nil {
		return err
	}
	return program.CopyFile(filepath.Join(root, archive), filepath.Join(dir, userlandFile))
}
