// Package hugepages reads which sizes of huge pages the kernel has.
package hugepages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Sizes returns the sizes in bytes, the smallest first. root is the directory with sys. A kernel without huge pages has
// no sizes.
func Sizes(root string) ([]int64, error) {
	entries, err := os.ReadDir(filepath.Join(root, "sys/kernel/mm/hugepages"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sizes []int64
	for _, entry := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "hugepages-"), "kB")
		if kilobytes, err := strconv.ParseInt(text, 10, 64); err == nil {
			sizes = append(sizes, kilobytes<<10)
		}
	}
	slices.Sort(sizes)
	return sizes, nil
}

// Names returns the sizes as the files of the controller hugetlb name them, such as 2MB, in lexical order. It
// returns none if the kernel's directory cannot be read.
func Names(root string) []string {
	sizes, _ := Sizes(root)
	var names []string
	for _, size := range sizes {
		names = append(names, name(size))
	}
	slices.Sort(names)
	return names
}

func name(size int64) string {
	switch {
	case size >= 1<<30:
		return fmt.Sprintf("%dGB", size>>30)
	case size >= 1<<20:
		return fmt.Sprintf("%dMB", size>>20)
	default:
		return fmt.Sprintf("%dKB", size>>10)
	}
}
