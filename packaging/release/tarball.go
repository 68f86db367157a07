package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// tarball packs the files below one directory, in which they have the paths of an installation.
func (r release) tarball(architecture string, files []file) (err error) {
	name := "criadapter_" + r.version + "_linux_" + architecture
	out, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	compressed := gzip.NewWriter(out)
	if err := writeTar(compressed, name, files, r.time); err != nil {
		return err
	}
	return compressed.Close()
}

// writeTar writes files in their order, and their parent directories. below is the directory above all of them. It may
// be empty.
func writeTar(to io.Writer, below string, files []file, at time.Time) error {
	packed := tar.NewWriter(to)
	made := map[string]bool{".": true}
	for _, f := range files {
		name := path.Join(below, f.path)
		if err := makeDirectories(packed, path.Dir(name), made, at); err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode), Size: int64(len(f.content)),
			ModTime: at, Format: tar.FormatPAX}
		if f.link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := packed.WriteHeader(header); err != nil {
			return err
		}
		if _, err := packed.Write(f.content); err != nil {
			return err
		}
	}
	return packed.Close()
}

// makeDirectories writes dir after its parents, unless it is written already.
func makeDirectories(packed *tar.Writer, dir string, made map[string]bool, at time.Time) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := makeDirectories(packed, path.Dir(dir), made, at); err != nil {
		return err
	}
	return packed.WriteHeader(
		&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatPAX})
}
