package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// license matches the name of a file with terms.
var license = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)`)

// termsFile is the name of the file with the terms in packages and images.
const termsFile = "THIRD_PARTY_LICENSES"

// terms returns the terms of every linked module, from the module cache. A module without terms is an error, because it
// must not be distributed.
func (r release) terms(ctx context.Context, modules []module) ([]byte, error) {
	var text bytes.Buffer
	fmt.Fprintf(&text,
		"criadapter is licensed under Apache-2.0, see LICENSE. Its programs are linked with these modules, each "+
			"under its own terms.\n")
	dirs, err := r.moduleDirs(ctx, modules)
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		terms, err := readTerms(dirs[module.path])
		if err != nil {
			return nil, err
		}
		if len(terms) == 0 {
			return nil, fmt.Errorf("%s %s has no licence", module.path, module.version)
		}
		for _, t := range terms {
			fmt.Fprintf(&text, "\n%s\n%s %s, %s\n\n%s", strings.Repeat("=", 80), module.path, module.version, t.path,
				t.content)
		}
	}
	return text.Bytes(), nil
}

// moduleDirs returns the directories of the modules' sources, by module path.
func (r release) moduleDirs(ctx context.Context, modules []module) (map[string]string, error) {
	root, err := output(ctx, r.source, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{standardLibrary: root}
	args := []string{"mod", "download", "-json"}
	for _, module := range modules {
		if module.path != standardLibrary {
			args = append(args, module.path+"@"+module.version)
		}
	}
	answer, err := output(ctx, r.source, nil, "go", args...)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(answer))
	for decoder.More() {
		var downloaded struct{ Path, Dir string }
		if err := decoder.Decode(&downloaded); err != nil {
			return nil, err
		}
		dirs[downloaded.Path] = downloaded.Dir
	}
	return dirs, nil
}

// readTerms reads the files with terms at the root of a module.
func readTerms(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []file
	for _, entry := range entries {
		if entry.IsDir() || !license.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, file{path: entry.Name(), content: append(bytes.TrimSpace(content), '\n')})
	}
	return found, nil
}
