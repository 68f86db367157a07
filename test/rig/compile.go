package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/results"
)

// testBinary is a compiled test package.
type testBinary struct {
	Package string // import path below the module's, "." for the module's root
	Dir     string // the package's directory, where its tests run
	Path    string // the binary
	System  bool   // has tests for the installed engine
	Engine  bool   // has tests that use an engine
	Only    string // the only test to run; empty means all tests of the plan
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

// duration estimates how long the package's tests take, in seconds: as long as in the last run. For a new package, it
// is a tenth of a second per KiB of tests, and a second if they use the rig.
func (p goPackage) duration(last map[string]float64) (seconds float64) {
	if took, recorded := last[p.short()]; recorded {
		return took
	}
	for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
		if info, err := os.Stat(filepath.Join(p.Dir, file)); err == nil {
			seconds += float64(info.Size()) / (10 << 10)
		}
	}
	if p.usesRig() {
		seconds *= 10
	}
	return seconds
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
// failed has an entry for each package that does not compile, and one more if vetting fails.
func compile(
	ctx context.Context, linked, dir string, packages []goPackage, opts testOptions,
) (binaries []testBinary, failed []results.Test, err error) {
	race := []string{"-race"}
	if opts.noRace {
		race = nil
	}
	vet := append(append([]string{"vet", "-trimpath"}, race...), opts.packages...)
	if err := program.Go(ctx, vet...); err != nil {
		failed = append(failed, results.Test{Package: "go vet", Outcome: results.Fail, Output: err.Error()})
	}
	siblings := map[string][]goPackage{}
	for _, pkg := range packages {
		parent := path.Dir(pkg.short())
		siblings[parent] = append(siblings[parent], pkg)
	}
	made, errs := map[string]testBinary{}, map[string]error{}
	for parent, of := range siblings {
		compileSiblings(ctx, filepath.Join(linked, strings.ReplaceAll(parent, "/", "_")), dir, of, race, made, errs)
	}
	for _, pkg := range packages {
		if err := errs[pkg.ImportPath]; err != nil {
			failed = append(failed, results.Test{Package: pkg.short(), Outcome: results.Fail, Output: err.Error()})
		} else {
			binaries = append(binaries, made[pkg.ImportPath])
		}
	}
	return binaries, failed, ctx.Err()
}

// compileSiblings links the tests of packages with one parent directory in the directory linked, and puts them into
// dir. One go command links them all, because each command takes half a second of CPU time to find a binary up to date.
// Their binaries have different names. If one package does not compile, each is linked by a command of its own. made
// and errs get the outcomes by import path.
func compileSiblings(
	ctx context.Context, linked, dir string, packages []goPackage, race []string, made map[string]testBinary,
	errs map[string]error,
) {
	// -w leaves out debug information, which stack traces do not need: linking takes a quarter less.
	link := append([]string{"test", "-c", "-trimpath", "-ldflags=-w", "-o", linked + "/"}, race...)
	all := slices.Clone(link)
	for _, pkg := range packages {
		all = append(all, pkg.ImportPath)
	}
	together := os.MkdirAll(linked, 0o755)
	if together == nil {
		var unlock func()
		if unlock, together = lockBinaries(linked); together == nil {
			defer unlock()
			together = program.Go(ctx, all...)
		}
	}
	for _, pkg := range packages {
		err := together
		if err != nil && len(packages) > 1 {
			err = program.Go(ctx, append(link, pkg.ImportPath)...)
		}
		if err == nil {
			made[pkg.ImportPath], err = pkg.binary(dir, filepath.Join(linked, path.Base(pkg.ImportPath)+".test"))
		}
		errs[pkg.ImportPath] = err
	}
}

// binary puts the linked tests of the package into dir.
func (p goPackage) binary(dir, linked string) (testBinary, error) {
	name := strings.ReplaceAll(p.short(), "/", "_") + ".test"
	b := testBinary{Package: p.short(), Dir: p.Dir, Engine: p.usesRig(), Path: filepath.Join(dir, name)}
	if err := linkOrCopy(linked, b.Path); err != nil {
		return b, err
	}
	var err error
	b.System, err = p.testsSystem()
	return b, err
}

// short is the import path below the module's.
func (p goPackage) short() string {
	short := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	return path.Clean(short)
}

// listPackages returns the packages that have tests, ordered by duration, the slowest first. Rigs that run beside each
// other then end at about the same time. last has the durations of the last run.
func listPackages(ctx context.Context, patterns []string, last map[string]float64) ([]goPackage, error) {
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
			slices.SortStableFunc(packages, func(a, b goPackage) int {
				return cmp.Compare(b.duration(last), a.duration(last))
			})
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
