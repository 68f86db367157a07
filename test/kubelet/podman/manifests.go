// Package podman reads the manifests of podman's own tests of `podman kube play`. It also reads the report, which has
// the outcome of each manifest with `kubelet-core play`. The manifests are string variables in a Go file of podman's
// module.
package podman

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// File is the file with the manifests, in podman's module.
const File = "test/e2e/play_kube_test.go"

// Manifests returns the manifests by the names of their variables. Templates are left out: podman's tests fill them
// with code. images has the values of podman's image constants, by their names.
func Manifests(path string, images map[string]string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, declaration := range file.Decls {
		variables, ok := declaration.(*ast.GenDecl)
		if !ok || variables.Tok != token.VAR {
			continue
		}
		for _, spec := range variables.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Names) != 1 || len(value.Values) != 1 {
				continue
			}
			text, ok, err := evaluate(value.Values[0], images)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", value.Names[0].Name, err)
			}
			if ok && strings.Contains(text, "\nkind: ") && !strings.Contains(text, "{{") {
				found[value.Names[0].Name] = text
			}
		}
	}
	return found, nil
}

// evaluate returns the value of a string constant, and false for any other expression.
func evaluate(expression ast.Expr, images map[string]string) (text string, ok bool, err error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false, nil
		}
		text, err = strconv.Unquote(e.Value)
		return text, true, err
	case *ast.Ident:
		image, known := images[e.Name]
		return image, known, nil
	case *ast.BinaryExpr:
		left, okLeft, errLeft := evaluate(e.X, images)
		right, okRight, errRight := evaluate(e.Y, images)
		if errLeft != nil {
			return "", false, errLeft
		}
		return left + right, okLeft && okRight, errRight
	}
	return "", false, nil
}
