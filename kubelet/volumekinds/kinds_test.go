package volumekinds

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// sources returns one VolumeSource for each field of that type, by the field's name. Only this field is set, to an
// empty value.
func sources() map[string]*v1.VolumeSource {
	all := map[string]*v1.VolumeSource{}
	for f := range reflect.TypeFor[v1.VolumeSource]().Fields() {
		source := &v1.VolumeSource{}
		reflect.ValueOf(source).Elem().FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
		all[fieldName(f)] = source
	}
	return all
}

// TestKinds: each field of v1.VolumeSource is either in the table or refused, and each Kind is complete.
func TestKinds(t *testing.T) {
	all := sources()
	for name, source := range all {
		kind, listed := lookup(name)
		testutil.Assert(t, listed != slices.Contains(refused, name), "%s must be either in the table or refused", name)
		found, err := Of(source)
		testutil.Assert(t, !listed || err == nil && found.Field == name,
			"%s has the kind %q, %v", name, found.Field, err)
		testutil.Assert(t, listed || errors.Is(err, errdefs.ErrNotImplemented) && strings.Contains(err.Error(), name),
			"%s: %v, want it refused by its name", name, err)
		testutil.Assert(t, !listed || kind.describe != nil, "%s cannot be described", name)
		testutil.Assert(t, !listed || len(kind.Honoured) > 0, "%s has no list of supported fields", name)
		testutil.Assert(t, !listed || kind.Files == nil || kind.Directory != "", "%s has files and no directory", name)
		testutil.Assert(t, !listed || (kind.Mount != nil) != (kind.Files != nil),
			"%s has Mount: %v, Files: %v; it needs one of them", name, kind.Mount != nil, kind.Files != nil)
	}
	directories := map[string]bool{}
	for _, kind := range Kinds() {
		testutil.Assert(t, all[kind.Field] != nil, "%s is not a field of v1.VolumeSource", kind.Field)
		testutil.Assert(t, !directories[kind.Directory] || kind.Directory == "",
			"two kinds have the directory %s", kind.Directory)
		directories[kind.Directory] = true
	}
	for _, name := range refused {
		testutil.Assert(t, all[name] != nil, "%s is refused, but is not a field of v1.VolumeSource", name)
	}
}

// TestPlugins: metrics have the names of the kubelet's plugins.
func TestPlugins(t *testing.T) {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, strings.TrimPrefix(kind.Plugin(), "kubernetes.io/"))
	}
	testutil.Equal(t, strings.Join(names, " "), "empty-dir host-path persistentVolumeClaim configmap secret "+
		"downward-api projected image", "plugins")
}

// TestKindsListsEveryKind reads the package's source: Kinds must return every Kind that a file defines.
func TestKindsListsEveryKind(t *testing.T) {
	files, err := filepath.Glob("*.go")
	testutil.Must(t, err)
	var defined, listed []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		testutil.Must(t, err)
		defined = append(defined, definedKinds(parsed)...)
	}
	for _, kind := range Kinds() {
		listed = append(listed, strconv.Quote(kind.Field))
	}
	slices.Sort(defined)
	slices.Sort(listed)
	testutil.Assert(t, slices.Equal(defined, listed), "the files define %v, Kinds returns %v", defined, listed)
}

// definedKinds are the quoted names in the literals Kind{Field: "name", …} of a file.
func definedKinds(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if of, ok := literal.Type.(*ast.Ident); !ok || of.Name != "Kind" {
			return true
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Field" {
				names = append(names, pair.Value.(*ast.BasicLit).Value)
			}
		}
		return true
	})
	return names
}

// TestReferencesAreKnown: a Kind has references if its source can name a config map or a secret, and only then.
func TestReferencesAreKnown(t *testing.T) {
	for name, source := range sources() {
		kind, listed := lookup(name)
		if can := namesObject(reflect.TypeOf(source).Elem(), name); listed && can != (kind.references != nil) {
			t.Errorf("%s can name an object: %v, but References: %v", name, can, kind.references != nil)
		}
	}
}

// namesObject reports whether a struct's field with this name, or a field below it, can name a config map or a secret.
// The name any stands for every field.
func namesObject(of reflect.Type, name string) bool {
	const any = ""
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of == reflect.TypeFor[v1.LocalObjectReference]() {
		return true
	}
	if of.Kind() != reflect.Struct {
		return false
	}
	for f := range of.Fields() {
		if (name == any || fieldName(f) == name) && (f.Name == "SecretName" || namesObject(f.Type, any)) {
			return true
		}
	}
	return false
}

func TestReferences(t *testing.T) {
	for name, test := range map[string]struct {
		source v1.VolumeSource
		want   []reference
	}{
		"nothing":   {v1.VolumeSource{}, nil},
		"host path": {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}, nil},
		"config map": {
			v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "a"}}},
			[]reference{{ConfigMaps, "a"}}},
		"secret": {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "b"}}, []reference{{Secrets, "b"}}},
		"projected": {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}},
			{DownwardAPI: &v1.DownwardAPIProjection{}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "d"}}},
		}}}, []reference{{Secrets, "c"}, {ConfigMaps, "d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shownBy(&test.source)
			testutil.Assert(t, slices.Equal(got, test.want), "references %v, want %v", got, test.want)
		})
	}
}

func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		source v1.VolumeSource
		want   string
	}{
		{v1.VolumeSource{}, "empty"},
		{v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, "empty, in memory"},
		{v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv"}}, "the host's /srv"},
		{
			v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "a"}}},
			"config map a"},
		{v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "b"}}, "secret b"},
		{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}, "fields of the pod"},
		{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: make([]v1.VolumeProjection, 2)}},
			"projected from 2 sources"},
		{v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "registry.example/tools:1"}},
			"image registry.example/tools:1"},
	} {
		testutil.Equal(t, Describe(&test.source), test.want, "description of %v", fields(&test.source))
	}
	if got, err := Of(&v1.VolumeSource{RBD: &v1.RBDVolumeSource{}}); err == nil ||
		!strings.HasPrefix(Describe(&v1.VolumeSource{RBD: &v1.RBDVolumeSource{}}), "rbd: ") {
		t.Errorf("a refused volume has the kind %v", got)
	}
}
