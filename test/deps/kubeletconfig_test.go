package deps_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestKubeletConfigurationIsWhole checks that kubelet-core knows each field of KubeletConfiguration, and the field's
// type. A new release of Kubernetes may add a field.
func TestKubeletConfigurationIsWhole(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubelet").Output()
	testutil.Must(t, err)
	source := filepath.Join(strings.TrimSpace(string(out)), "config", "v1beta1", "types.go")
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
	testutil.Must(t, err)
	structs := map[string]*ast.StructType{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = s
			}
		}
		return true
	})
	// misread returns the error for a field that kubelet-core lacks, or has with another type.
	misread := func(path string, value any) error {
		content := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
		inner, names := content, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			next := map[string]any{}
			inner[name], inner = next, next
		}
		inner[names[len(names)-1]] = value
		raw, err := yaml.Marshal(content)
		testutil.Must(t, err)
		if _, err = configfile.Parse(raw); err != nil && !strings.Contains(err.Error(), "is not a field") &&
			!strings.Contains(err.Error(), ", want ") {
			err = nil // the value is not supported
		}
		return err
	}
	testutil.Assert(t, misread("noField", map[string]any{}) != nil && misread("maxPods", "x") != nil,
		"an unknown field or another type goes unseen")
	count := 0
	walkFields(structs, "KubeletConfiguration", "", func(path string, of ast.Expr) {
		count++
		err := misread(path, exampleOf(of))
		testutil.Assert(t, err == nil, "field %s: %v", path, err)
	})
	testutil.Assert(t, count > 100, "the type has only %d fields", count)
}

// walkFields calls visit for each field of a structure. If a field is a structure itself, walkFields visits the inner
// structure's fields instead.
func walkFields(structs map[string]*ast.StructType, name, prefix string, visit func(string, ast.Expr)) {
	for _, f := range structs[name].Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		of := f.Type
		if pointer, ok := of.(*ast.StarExpr); ok {
			of = pointer.X
		}
		ident, ok := of.(*ast.Ident)
		switch {
		case tag == "": // TypeMeta
		case ok && structs[ident.Name] != nil:
			walkFields(structs, ident.Name, prefix+tag+".", visit)
		default:
			visit(prefix+tag, of)
		}
	}
}

// exampleOf returns a value of a type. It is not nil, since a field without a value goes unread.
func exampleOf(of ast.Expr) any {
	switch of := of.(type) {
	case *ast.ArrayType:
		if ident, ok := of.Elt.(*ast.Ident); ok && ident.Name == "string" {
			return []string{"x"}
		}
		return []any{}
	case *ast.MapType:
		if ident, ok := of.Value.(*ast.Ident); ok && ident.Name == "string" {
			return map[string]string{"x": "1"}
		}
		return map[string]any{}
	case *ast.SelectorExpr:
		if of.Sel.Name == "Duration" {
			return "1s"
		}
		return map[string]any{}
	case *ast.Ident:
		switch of.Name {
		case "bool":
			return true
		case "int32", "int64":
			return 1
		case "float64":
			return 0.5
		}
		return "x" // string, and types based on it
	}
	panic(fmt.Sprintf("type %T", of))
}
