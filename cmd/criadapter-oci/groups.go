package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/criadapter/criadapter/internal/bounded"
	"github.com/criadapter/criadapter/internal/ocinote"
)

const (
	// maxAccounts is the size limit of /etc/passwd and /etc/group in bytes.
	maxAccounts = 16 << 20
	// maxLinks is the limit of links in one path, as the kernel's.
	maxLinks = 40
)

// findGroups looks up the groups of a user, the note's GroupsOf, in the files of a container that has never started. It
// saves the groups in the note. Commands then get the same groups, whatever the container writes into these files.
func (c *call) findGroups(note *ocinote.Note, config []byte) error {
	user := note.Process.GroupsOf
	if user == "" {
		return nil
	}
	files, err := ocinote.FilesOf(config, c.bundle, ocinote.Note{}) // the note's mounts do not matter
	if err != nil {
		return err
	}
	groups, err := imageGroups(files.Root, user)
	if err != nil {
		return fmt.Errorf("the groups of user %s in the image: %w", user, err)
	}
	note.Process.AddGroups, note.Process.GroupsOf = groups, ""
	return c.notes.Save(c.container, *note)
}

// imageGroups returns the groups with user among their members in /etc/group below dir. user is a name, or an id whose
// name imageGroups looks up in /etc/passwd. The engine does the same for a user without a group.
func imageGroups(dir, user string) ([]uint32, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if id, err := strconv.ParseUint(user, 10, 32); err == nil {
		passwd, err := readAccounts(root, "etc/passwd")
		if err != nil {
			return nil, err
		}
		if user = userName(passwd, id); user == "" {
			return nil, nil
		}
	}
	group, err := readAccounts(root, "etc/group")
	if err != nil {
		return nil, err
	}
	return memberships(group, user), nil
}

// userName returns the name of the first user with an id in the text of passwd(5), empty for none.
func userName(passwd string, id uint64) string {
	for _, fields := range entries(passwd, 3) {
		if other, err := strconv.ParseUint(fields[2], 10, 32); err == nil && other == id {
			return fields[0]
		}
	}
	return ""
}

// memberships returns the groups with a user among their members in the text of group(5). It leaves out ids that the
// engine would not take.
func memberships(group, user string) (ids []uint32) {
	for _, fields := range entries(group, 4) {
		if id, err := strconv.ParseUint(fields[2], 10, 31); err == nil &&
			slices.Contains(strings.Split(fields[3], ","), user) {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// entries returns the fields of the lines that have at least count fields. It leaves out comments.
func entries(text string, count int) (all [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if fields := strings.Split(line, ":"); len(fields) >= count && !strings.HasPrefix(line, "#") {
			all = append(all, fields)
		}
	}
	return all
}

// readAccounts reads a file of a container. A missing file counts as empty.
func readAccounts(root *os.Root, name string) (string, error) {
	path, err := resolve(root, name)
	if err != nil {
		return "", err
	}
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("/%s is not a file", name), err)
	}
	text, err := bounded.ReadAll(file, "/"+name, maxAccounts)
	return string(text), err
}

// resolve returns a path of a container with all links followed. The path may be missing. An absolute link begins at
// root, and no link leaves root. os.Root alone would refuse such links.
func resolve(root *os.Root, path string) (string, error) {
	done, rest := "", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join("/", done, rest[0])[1:]
		rest = rest[1:]
		target, err := root.Readlink(next)
		if err != nil { // not a link, or missing
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: "/" + path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			done = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}
