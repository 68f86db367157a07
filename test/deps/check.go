package deps

import (
	"fmt"
	"slices"
	"strings"
)

// Package is the checked part of the output of `go list -json`.
type Package struct {
	ImportPath   string
	Doc          string
	Imports      []string // of its non-test files
	Deps         []string // imports and, recursively, their imports
	TestImports  []string
	XTestImports []string
}

// Check returns a sentence for each import of a package of Module that breaks the table or a ban, and for a missing
// package comment.
func Check(pkg Package, rules []Rule, bans []Ban) []string {
	self := relative(pkg.ImportPath)
	var wrong []string
	if strings.TrimSpace(pkg.Doc) == "" {
		wrong = append(wrong, self+" has no package comment: say what the package is for")
	}
	i := slices.IndexFunc(rules, func(r Rule) bool { return covers(r.Path, self) })
	if i < 0 {
		return append(wrong, self+" is not in the import table: add it with its allowed imports and the reason, or "+
			"move it")
	}
	for _, imported := range pkg.Imports {
		if path := relative(imported); path != imported && !rules[i].allows(path) {
			wrong = append(wrong, fmt.Sprintf("%s must not import %s: %s", self, path, rules[i].Why))
		}
	}
	for _, ban := range bans {
		wrong = append(wrong, ban.check(self, pkg)...)
	}
	return wrong
}

func (r Rule) allows(path string) bool {
	return slices.ContainsFunc(r.May, func(may string) bool { return may == anything || may == path })
}

func (b Ban) check(self string, pkg Package) []string {
	if slices.ContainsFunc(b.Except, func(except string) bool { return covers(except, self) }) {
		return nil
	}
	imports := pkg.Imports
	if b.Indirect {
		imports = slices.Concat(pkg.Deps, pkg.TestImports, pkg.XTestImports)
	}
	var wrong []string
	for _, imported := range imports {
		if imported == b.Import || strings.HasPrefix(imported, b.Import+"/") {
			wrong = append(wrong, fmt.Sprintf("%s must not import %s: %s", self, imported, b.Why))
		}
	}
	return wrong
}

// relative cuts Module off an import path. The path of another module stays unchanged.
func relative(importPath string) string { return strings.TrimPrefix(importPath, Module+"/") }

// covers says whether pattern matches the package. The pattern is a path. With /... at its end, it matches all packages
// below the path, too.
func covers(pattern, pkg string) bool {
	parent, all := strings.CutSuffix(pattern, "/...")
	return pkg == parent || all && strings.HasPrefix(pkg, parent+"/")
}
