package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFillMakesAnEntryOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	made := 0
	fill := func(_ context.Context, dir string) error {
		made++
		return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644)
	}
	key := Key("tool", "example.com/tool@v1")
	has, err := Has(key)
	testutil.Assert(t, !has && err == nil, "before: %v, %v", has, err)
	for range 2 {
		dir, err := Fill(t.Context(), key, fill)
		testutil.Must(t, err)
		data, err := os.ReadFile(filepath.Join(dir, "file"))
		testutil.Assert(t, err == nil && string(data) == "content", "%q, %v", data, err)
	}
	testutil.Assert(t, made == 1, "made %d times", made)
	has, err = Has(key)
	testutil.Assert(t, has && err == nil, "after: %v, %v", has, err)
}

func TestFillLeavesNothingOfAFailure(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	broken := errors.New("broken")
	_, err := Fill(t.Context(), "tool", func(_ context.Context, dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	})
	testutil.Assert(t, errors.Is(err, broken), "error %v", err)
	left, err := os.ReadDir(filepath.Join(home, "criadapter"))
	testutil.Assert(t, err == nil && len(left) <= 0, "left: %v, %v", left, err)
}

func TestFillAtOnceAgrees(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	var together, done sync.WaitGroup
	together.Add(4)
	for range 4 {
		done.Go(func() {
			_, err := Fill(t.Context(), "tool", func(_ context.Context, dir string) error {
				together.Done()
				together.Wait() // all four fills have begun before the first one ends
				return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644)
			})
			testutil.Check(t, err)
		})
	}
	done.Wait()
	left, err := os.ReadDir(filepath.Join(home, "criadapter"))
	testutil.Assert(t, err == nil && len(left) == 1, "cache holds %v, %v; want one entry", left, err)
}

// A directory of the cache may be one element of a list of directories, such as PATH or --cni-bin-dir.
func TestKeyIsOneDirectoryOfAnyList(t *testing.T) {
	testutil.Equal(t, Key("cni", "example.com/a/b@v1", "linux", "static,stripped", "a:b c"),
		"cni_example.com-a-b@v1_linux_static_stripped_a_bc", "key")
}
