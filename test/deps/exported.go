package deps

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Unused returns "path: name" for each exported name outside test/... that no other package uses. Tests of other
// packages and external tests count as users. Methods and fields of exported types are checked, too. Names that are
// used without a reference do not count: methods of an interface, tagged, encoded and embedded fields, constants beside
// a used one, and types of used names.
func Unused(units []*Unit) []string {
	u, names := analyse(units)
	var unused []string
	for _, n := range names {
		if !u.used[n.key] {
			unused = append(unused, below(n.unit.Path)+": "+n.text)
		}
	}
	slices.Sort(unused)
	return unused
}

// analyse lists the exported names, and says which of them are in use.
func analyse(units []*Unit) (usage, []*name) {
	u := usage{used: map[string]bool{}, shapes: shapes(units)}
	for _, unit := range units {
		u.references(unit)
	}
	var names []*name
	for _, unit := range units {
		if !unit.external && !strings.HasPrefix(unit.Path, Module+"/test/") {
			names = append(names, u.declared(unit)...)
		}
	}
	u.spread(names)
	return u, names
}

// name is one exported name.
type name struct {
	unit      *Unit
	key, text string
	object    types.Object
}

// usage has the used names by their keys.
type usage struct {
	used map[string]bool
	// shapes has the methods of each interface.
	shapes []map[string]bool
}

// key identifies a declaration by its line, since export data has no columns.
func (u *Unit) key(object types.Object) string {
	position := u.fset.Position(object.Pos())
	return fmt.Sprintf("%s %s:%d %s", object.Pkg().Path(), filepath.Base(position.Filename), position.Line,
		object.Name())
}

// ours says whether the object is exported by a package of the module.
func ours(object types.Object) bool {
	return object != nil && object.Pkg() != nil && object.Exported() && strings.HasPrefix(object.Pkg().Path(), Module)
}

// references records the names of other packages that the unit uses, and the types that it encodes.
func (u *usage) references(unit *Unit) {
	for _, object := range unit.info.Uses {
		if ours(object) && (object.Pkg() != unit.types) {
			u.used[unit.key(object)] = true
		}
	}
	for _, file := range unit.files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CompositeLit:
				u.literal(unit, node)
			case *ast.CallExpr:
				u.encoded(unit, node)
				u.converted(unit, node)
			}
			return true
		})
	}
}

// literal records the fields of a struct literal that does not name them.
func (u *usage) literal(unit *Unit, literal *ast.CompositeLit) {
	if len(literal.Elts) == 0 {
		return
	}
	if _, keyed := literal.Elts[0].(*ast.KeyValueExpr); keyed {
		return
	}
	u.fields(unit, unit.info.TypeOf(literal))
}

// converted records the fields of structs that are converted into each other.
func (u *usage) converted(unit *Unit, call *ast.CallExpr) {
	if unit.info.Types[call.Fun].IsType() && len(call.Args) == 1 {
		u.fields(unit, unit.info.TypeOf(call.Fun))
		u.fields(unit, unit.info.TypeOf(call.Args[0]))
	}
}

// fields records all fields of a struct of another package.
func (u *usage) fields(unit *Unit, t types.Type) {
	if fields, ok := t.Underlying().(*types.Struct); ok {
		for field := range fields.Fields() {
			if ours(field) && field.Pkg() != unit.types {
				u.used[unit.key(field)] = true
			}
		}
	}
}

// encoders are packages whose functions read fields by reflection.
var encoders = []string{"encoding/json", "sigs.k8s.io/yaml", "sigs.k8s.io/json", "text/template"}

// encoded records the fields of encoded and decoded types.
func (u *usage) encoded(unit *Unit, call *ast.CallExpr) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	callee := unit.info.Uses[selector.Sel]
	if callee == nil || callee.Pkg() == nil || !slices.Contains(encoders, callee.Pkg().Path()) {
		return
	}
	for _, argument := range call.Args {
		mentioned(unit.info.TypeOf(argument), func(t *types.TypeName) bool {
			if t.Pkg() == nil || !strings.HasPrefix(t.Pkg().Path(), Module) {
				return false
			}
			if fields, ok := t.Type().Underlying().(*types.Struct); ok {
				for field := range fields.Fields() {
					u.used[unit.key(field)] = true
				}
			}
			return true
		})
	}
}

// declared lists the exported names of a unit. It records names that are used without a reference.
func (u *usage) declared(unit *Unit) []*name {
	var names []*name
	add := func(object types.Object, text string) *name {
		n := &name{unit: unit, key: unit.key(object), text: text, object: object}
		names = append(names, n)
		return n
	}
	u.constants(unit)
	scope := unit.types.Scope()
	for _, text := range scope.Names() {
		object := scope.Lookup(text)
		if !object.Exported() || strings.HasSuffix(unit.fset.Position(object.Pos()).Filename, "_test.go") {
			continue
		}
		add(object, text)
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !isType || !ok {
			continue
		}
		free := u.byInterface(named)
		for method := range named.Methods() {
			if method.Exported() && !strings.HasSuffix(unit.fset.Position(method.Pos()).Filename, "_test.go") {
				if n := add(method, text+"."+method.Name()); free[method.Name()] {
					u.used[n.key] = true
				}
			}
		}
		if fields, ok := named.Underlying().(*types.Struct); ok {
			for i := range fields.NumFields() {
				if field := fields.Field(i); field.Exported() {
					if n := add(field, text+"."+field.Name()); field.Embedded() || fields.Tag(i) != "" {
						u.used[n.key] = true
					}
				}
			}
		}
	}
	return names
}

// constants records all constants of a block if one of them is used, because a set is exported as a whole.
func (u *usage) constants(unit *Unit) {
	for _, file := range unit.files {
		for _, declaration := range file.Decls {
			block, ok := declaration.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			var keys []string
			for _, spec := range block.Specs {
				for _, ident := range spec.(*ast.ValueSpec).Names {
					if ident.IsExported() {
						keys = append(keys, unit.key(unit.types.Scope().Lookup(ident.Name)))
					}
				}
			}
			if slices.ContainsFunc(keys, func(key string) bool { return u.used[key] }) {
				for _, key := range keys {
					u.used[key] = true
				}
			}
		}
	}
}

// spread records the types in the declarations of used names, until it finds no more.
func (u *usage) spread(names []*name) {
	for more := true; more; {
		more = false
		for _, n := range names {
			if !u.used[n.key] {
				continue
			}
			of := n.object.Type()
			if _, isType := n.object.(*types.TypeName); isType {
				if _, fields := of.Underlying().(*types.Struct); fields {
					continue // fields are checked as names
				}
				of = of.Underlying()
			}
			mentioned(of, func(t *types.TypeName) bool {
				if ours(t) {
					key := n.unit.key(t)
					more = more || !u.used[key]
					u.used[key] = true
				}
				return false
			})
		}
	}
}

// mentioned visits the names of the types in a type. It descends into a named type if visit returns true.
func mentioned(t types.Type, visit func(*types.TypeName) bool) {
	seen := map[types.Type]bool{}
	var walk func(types.Type)
	walk = func(t types.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			visit(t.Obj())
			walk(t.Rhs())
		case *types.Named:
			for argument := range t.TypeArgs().Types() {
				walk(argument)
			}
			if visit(t.Obj()) {
				walk(t.Underlying())
			}
		case interface{ Elem() types.Type }: // pointer, slice, array, channel, map
			walk(t.Elem())
			if m, ok := t.(*types.Map); ok {
				walk(m.Key())
			}
		case *types.Signature:
			for parameter := range t.Params().Variables() {
				walk(parameter.Type())
			}
			for result := range t.Results().Variables() {
				walk(result.Type())
			}
		case *types.Struct:
			for field := range t.Fields() {
				walk(field.Type())
			}
		case *types.Interface:
			for embedded := range t.EmbeddedTypes() {
				walk(embedded)
			}
			for method := range t.Methods() {
				walk(method.Type())
			}
		}
	}
	walk(t)
}

// words are the methods that the standard library finds by name.
var words = []string{"String", "GoString", "Format", "Error", "Unwrap", "Is", "As", "Timeout", "Temporary"}

// byInterface returns the type's methods that belong to an interface which the type implements.
func (u *usage) byInterface(named *types.Named) map[string]bool {
	own := map[string]bool{}
	set := types.NewMethodSet(types.NewPointer(named))
	for selection := range set.Methods() {
		own[shape(selection.Obj())] = true
	}
	free := map[string]bool{}
	for _, word := range words {
		free[word] = true
	}
	for _, methods := range u.shapes {
		satisfied := true
		for method := range methods {
			satisfied = satisfied && own[method]
		}
		for method := range methods {
			if satisfied {
				free[method[:strings.Index(method, " ")]] = true
			}
		}
	}
	return free
}

// shape is a method's name with the types of its signature. Types with the same path count as the same type.
func shape(method types.Object) string {
	signature := method.Type().(*types.Signature)
	text := method.Name() + " "
	for _, tuple := range []*types.Tuple{signature.Params(), signature.Results()} {
		for variable := range tuple.Variables() {
			text += types.TypeString(variable.Type(), nil) + ","
		}
		text += ";"
	}
	return text
}

// shapes collects the interfaces that the units and their imports declare.
func shapes(units []*Unit) []map[string]bool {
	var all []map[string]bool
	add := func(t types.Type) {
		face, ok := t.Underlying().(*types.Interface)
		if !ok || face.NumMethods() == 0 {
			return
		}
		methods := map[string]bool{}
		for method := range face.Methods() {
			methods[shape(method)] = true
		}
		if !slices.ContainsFunc(all, func(other map[string]bool) bool { return reflect.DeepEqual(other, methods) }) {
			all = append(all, methods)
		}
	}
	seen := map[string]bool{}
	for _, unit := range units {
		for _, imported := range unit.types.Imports() {
			if seen[imported.Path()] {
				continue
			}
			seen[imported.Path()] = true
			for _, text := range imported.Scope().Names() {
				if object, ok := imported.Scope().Lookup(text).(*types.TypeName); ok {
					add(object.Type())
				}
			}
		}
		for expression, value := range unit.info.Types {
			if _, ok := expression.(*ast.InterfaceType); ok && value.IsType() {
				add(value.Type)
			}
		}
	}
	return all
}
