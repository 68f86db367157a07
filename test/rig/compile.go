package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/results"
)

// testBinary is a compiled test package.
type testBinary struct {
	Package string // import path without the module's, "." for the module's root
	Dir     string // the package's directory, where its tests run
	Path    string // the binary
	System  bool   // has tests for the installed engine
	Engine  bool   // has tests that use an engine
	Only    string // the one test to run; empty runs the plan's
}

// goPackage is the part of `go list -json` that the rig reads.
type goPackage struct {
	ImportPath, Dir           string
	Module                    struct{ Path string }
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
}

// usesRig says whether tests of the package import rigenv.
func (p goPackage) usesRig() bool {
	return slices.Contains(append(p.TestImports, p.XTestImports...), p.Module.Path+"/test/rig/rigenv")
}

// weight estimates how long the package's tests take. Tests that use the rig wait for an engine, and large files have
// many tests.
func (p goPackage) weight() (weight int64) {
	for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
		if info, err := os.Stat(filepath.Join(p.Dir, file)); err == nil {
			weight += info.Size()
		}
	}
	if p.usesRig() {
		weight *= 10
	}
	return weight
}

// testsSystem says whether the package has tests for the installed engine.
func (p goPackage) testsSystem() (bool, error) {
	for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
		source, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return false, err
		}
		if bytes.Contains(source, []byte("\nfunc TestSystem")) {
			return true, nil
		}
	}
	return false, nil
}

// compile vets the packages of opts and puts the compiled tests of packages into dir. It links them in the directory
// linked, where they stay: the go command keeps a binary whose inputs are the same, which saves most of the time.
// failed has an entry for each package that does not compile, and one if vetting fails.
func compile(
	ctx context.Context, linked, dir string, packages []goPackage, opts testOptions,
) (binaries []testBinary, failed []results.Test, err error) {
	race := []string{"-race"}
	if opts.noRace {
		race = nil
	}
	// Vetting compiles every dependency once, so that the packages below can be linked beside each other.
	vet := append(append([]string{"vet", "-trimpath"}, race...), opts.packages...)
	if err := program.Go(ctx, vet...); err != nil {
		failed = append(failed, results.Test{Package: "go vet", Outcome: results.Fail, Output: err.Error()})
	}
	outcomes := make([]*results.Test, len(packages))
	binaries = make([]testBinary, len(packages))
	var group errgroup.Group
	group.SetLimit(2)
	for i, pkg := range packages {
		group.Go(func() error {
			var err error
			binaries[i], err = compileOne(ctx, linked, dir, pkg, race)
			if err != nil {
				outcomes[i] = &results.Test{Package: pkg.short(), Outcome: results.Fail, Output: err.Error()}
			}
			return nil
		})
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return nil, nil, err
	}
	var good []testBinary
	for i := range packages {
		if outcomes[i] != nil {
			failed = append(failed, *outcomes[i])
		} else {
			good = append(good, binaries[i])
		}
	}
	return good, failed, nil
}

// compileOne links the tests of one package in the directory linked, and puts them into dir.
func compileOne(ctx context.Context, linked, dir string, pkg goPackage, race []string) (testBinary, error) {
	name := strings.ReplaceAll(pkg.short(), "/", "_") + ".test"
	b := testBinary{Package: pkg.short(), Dir: pkg.Dir, Engine: pkg.usesRig(), Path: filepath.Join(dir, name)}
	cached := filepath.Join(linked, name)
	unlock, err := lockBinary(cached)
	if err != nil {
		return b, err
	}
	defer unlock()
	// -w leaves out debug information, which stack traces do not need: linking takes a quarter less.
	args := append([]string{"test", "-c", "-trimpath", "-ldflags=-w", "-o", cached}, race...)
	if err := program.Go(ctx, append(args, pkg.ImportPath)...); err != nil {
		return b, err
	}
	if err := linkOrCopy(cached, b.Path); err != nil {
		return b, err
	}
	b.System, err = pkg.testsSystem()
	return b, err
}

// short is the import path below the module's.
func (p goPackage) short() string {
	short := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	return path.Clean(short)
}

// listPackages returns the packages that have tests, ordered by weight, the slowest first. Rigs that run beside each
// other then end at about the same time.
func listPackages(ctx context.Context, patterns []string) ([]goPackage, error) {
	const fields = "-json=ImportPath,Dir,Module,TestGoFiles,XTestGoFiles,TestImports,XTestImports"
	args := append([]string{"list", "-e", fields}, patterns...)
	list, err := gomod.Command(ctx, "", nil, args...)
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(list))
	for {
		var pkg goPackage
		err := decoder.Decode(&pkg)
		if err == io.EOF {
			slices.SortStableFunc(packages, func(a, b goPackage) int { return cmp.Compare(b.weight(), a.weight()) })
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if len(pkg.TestGoFiles)+len(pkg.XTestGoFiles) > 0 {
			packages = append(packages, pkg)
		}
	}
}
