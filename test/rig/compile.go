package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/test/rig/results"
)

// testBinary is a compiled test package.
type testBinary struct {
	Package string // import path without the module's, "." for the module's root
	Dir     string // the package's directory, where its tests run
	Path    string // the binary
	System  bool   // has tests for the installed engine
	Engine  bool   // has tests that use an engine
}

// goPackage is what is read of `go list -json`.
type goPackage struct {
	ImportPath, Dir           string
	Module                    struct{ Path string }
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
}

// usesRig says whether tests of the package ask for the rig.
func (p goPackage) usesRig() bool {
	return slices.Contains(append(p.TestImports, p.XTestImports...), p.Module.Path+"/test/rig/rigenv")
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

// compile vets what opts names and compiles the tests of each of the packages to a file in dir. What does not compile
// is in failed, one entry for a package.
func compile(ctx context.Context, dir string, packages []goPackage, opts testOptions) (binaries []testBinary, failed []results.Test, err error) {
	race := []string{"-race"}
	if opts.noRace {
		race = nil
	}
	// Vetting compiles every dependency once, so that the packages below can be linked beside each other.
	vet := exec.CommandContext(ctx, "go", append(append([]string{"vet"}, race...), opts.packages...)...)
	if _, err := output(vet); err != nil {
		failed = append(failed, results.Test{Package: "go vet", Outcome: results.Fail, Output: err.Error()})
	}
	outcomes := make([]*results.Test, len(packages))
	binaries = make([]testBinary, len(packages))
	var group errgroup.Group
	group.SetLimit(2)
	for i, pkg := range packages {
		group.Go(func() error {
			var err error
			binaries[i], err = compileOne(ctx, dir, pkg, race)
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

func compileOne(ctx context.Context, dir string, pkg goPackage, race []string) (testBinary, error) {
	b := testBinary{
		Package: pkg.short(),
		Dir:     pkg.Dir,
		Engine:  pkg.usesRig(),
		Path:    filepath.Join(dir, strings.ReplaceAll(pkg.short(), "/", "_")+".test"),
	}
	args := append([]string{"test", "-c", "-o", b.Path}, race...)
	if _, err := output(exec.CommandContext(ctx, "go", append(args, pkg.ImportPath)...)); err != nil {
		return b, err
	}
	var err error
	b.System, err = pkg.testsSystem()
	return b, err
}

// short is the import path below the module's.
func (p goPackage) short() string {
	short := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	return path.Clean(short)
}

// listPackages returns the packages that have tests.
func listPackages(ctx context.Context, patterns []string) ([]goPackage, error) {
	args := append([]string{"list", "-e", "-json=ImportPath,Dir,Module,TestGoFiles,XTestGoFiles,TestImports,XTestImports"}, patterns...)
	list, err := output(exec.CommandContext(ctx, "go", args...))
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(list))
	for {
		var pkg goPackage
		err := decoder.Decode(&pkg)
		if err == io.EOF {
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
