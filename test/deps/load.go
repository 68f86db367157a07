package deps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Unit is a package with its internal tests, or only its external tests, read from the sources.
type Unit struct {
	// Path is the import path. External tests have the path of the tested package.
	Path     string
	external bool
	fset     *token.FileSet
	files    []*ast.File
	types    *types.Package
	info     *types.Info
}

// compiled is a part of the output of `go list -export` for a package.
type compiled struct {
	ImportPath, Dir, Export, ForTest   string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// Load reads all packages below dir, the root of the module, with their tests. Imports are read from the compiler's
// export data, which is cached after a build.
func Load(ctx context.Context, dir string) ([]*Unit, error) {
	packages, err := listCompiled(ctx, dir)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, pkg := range packages {
		exports[pkg.ImportPath] = pkg.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var units []*Unit
	for _, pkg := range packages {
		if pkg.ForTest != "" || strings.HasSuffix(pkg.ImportPath, ".test") ||
			pkg.ImportPath != Module && !strings.HasPrefix(pkg.ImportPath, Module+"/") {
			continue
		}
		for _, unit := range []*Unit{{Path: pkg.ImportPath}, {Path: pkg.ImportPath, external: true}} {
			files := slices.Concat(pkg.GoFiles, pkg.TestGoFiles)
			if unit.external {
				files = pkg.XTestGoFiles
			}
			if len(files) == 0 {
				continue
			}
			unit.fset = fset
			if err := unit.read(pkg.Dir, files, imports); err != nil {
				return nil, fmt.Errorf("%s: %w", pkg.ImportPath, err)
			}
			units = append(units, unit)
		}
	}
	return units, nil
}

// everyPackage is the pattern of all packages, in the root of the module. With a pattern of import paths, the go
// command would read the go.mod files of every module of the graph, which no build needs.
const everyPackage = "./..."

func listCompiled(ctx context.Context, dir string) ([]compiled, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-test", "-deps", "-buildvcs=false",
		"-json=ImportPath,Dir,Export,ForTest,GoFiles,TestGoFiles,XTestGoFiles", everyPackage)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []compiled
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg compiled
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, pkg)
	}
}

// read parses and checks the files. Names that internal tests add for external tests are not found. That is no error,
// because they are no names of other packages.
func (u *Unit) read(dir string, files []string, imports types.Importer) error {
	for _, file := range files {
		parsed, err := parser.ParseFile(u.fset, filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		u.files = append(u.files, parsed)
	}
	u.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: imports}
	if u.external {
		config.Error = func(error) {}
	}
	var err error
	u.types, err = config.Check(u.Path, u.fset, u.files, u.info)
	if u.external {
		return nil
	}
	return err
}
