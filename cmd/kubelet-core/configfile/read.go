package configfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/yamldoc"
)

// The API version and the kind of a configuration file.
const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kindName   = "KubeletConfiguration"
)

// Setting is the value of a flag that a file sets.
type Setting struct {
	// Flag is the name of the flag.
	Flag string
	// Values are set one after the other, which adds them to a list or map.
	Values []string
	// Field is the path of the field in the file that sets the flag. Several paths are joined with "and".
	Field string
}

// Read returns the settings in a file. Its error wraps os.ErrNotExist if there is no such file.
func Read(path string) ([]Setting, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	settings, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return settings, nil
}

// Parse returns the settings in the content of a file. Its error names all fields that are wrong.
func Parse(raw []byte) ([]Setting, error) {
	text, err := yamldoc.Only(raw)
	if err != nil {
		return nil, err
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, err
	}
	if file["apiVersion"] != apiVersion || file["kind"] != kindName {
		return nil, fmt.Errorf("apiVersion is %v and kind is %v, want %s and %s", file["apiVersion"], file["kind"],
			apiVersion, kindName)
	}
	delete(file, "apiVersion")
	delete(file, "kind")
	p := parser{fields: map[string]field{}}
	for _, f := range fields() {
		p.fields[f.path] = f
	}
	p.structure("", file)
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return combined(p.settings)
}

// parser collects the settings of a file.
type parser struct {
	fields   map[string]field
	settings []Setting
	errs     []error
}

// structure reads the fields of a structure. prefix is its path with a dot, or empty.
func (p *parser) structure(prefix string, content map[string]any) {
	for name, value := range sorted(content) {
		path := prefix + name
		known, ok := p.fields[path]
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
		case ok:
			if err := p.field(known, value); err != nil {
				p.errs = append(p.errs, fmt.Errorf("%s %w", path, err))
			}
		case isMap && p.hasFieldsIn(path+"."):
			p.structure(path+".", inner)
		default:
			p.errs = append(p.errs, fmt.Errorf("%s is not a field of %s", path, kindName))
		}
	}
}

func (p *parser) hasFieldsIn(prefix string) bool {
	for path := range p.fields {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// field reads the value of a field.
func (p *parser) field(f field, value any) error {
	if !f.kind.fits(value) {
		return fmt.Errorf("is %s, want %s", show(value), f.kind)
	}
	if f.kind.unset(value) && f.path != "evictionHard" { // an empty evictionHard is a value: no thresholds
		return nil
	}
	if f.flag == "" {
		return f.allow(value)
	}
	convert := f.convert
	if convert == nil {
		convert = func(value any) ([]string, error) { return notation(f.kind, value) }
	}
	values, err := convert(value)
	if err == nil {
		p.settings = append(p.settings, Setting{Flag: f.flag, Values: values, Field: f.path})
	}
	return err
}

// allow returns an error for a value that the kubelet core does not support.
func (f field) allow(value any) error {
	for _, allowed := range f.values {
		if f.kind.equal(value, allowed) {
			return nil
		}
	}
	said := fmt.Sprintf("is %s, which kubelet-core does not support", show(value))
	if len(f.values) > 0 {
		said += ": it must be " + show(f.values[0])
	}
	if f.remedy != "" {
		said += "; " + f.remedy
	}
	return errors.New(said)
}

// fits reports whether a value has the type of a kind.
func (k kind) fits(value any) bool {
	var ok bool
	switch k {
	case boolean:
		_, ok = value.(bool)
	case count, number:
		var n float64
		n, ok = value.(float64)
		ok = ok && n == float64(int64(n))
	case fraction:
		_, ok = value.(float64)
	case text:
		_, ok = value.(string)
	case duration:
		var s string
		s, ok = value.(string)
		_, err := time.ParseDuration(s)
		ok = ok && err == nil
	case texts:
		_, err := stringsIn(value)
		ok = err == nil
	case pairs:
		_, ok = value.(map[string]any)
		for _, v := range sorted(value) {
			_, isText := v.(string)
			_, isBool := v.(bool)
			ok = ok && (isText || isBool)
		}
	case other:
		ok = true
	}
	return ok
}

// unset reports whether a value means the kubelet's default, as if the field were not there.
func (k kind) unset(value any) bool {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		return v == "" || k == duration && err == nil && d == 0
	case float64:
		return k == count && v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// equal compares two values of a kind.
func (k kind) equal(a, b any) bool {
	switch k {
	case duration:
		da, _ := time.ParseDuration(a.(string))
		db, _ := time.ParseDuration(b.(string))
		return da == db
	case texts:
		all, _ := stringsIn(a)
		return strings.Join(all, ",") == b
	}
	return a == b
}

// reserved is the flag for kubeReserved and systemReserved, whose quantities are added up.
const reserved = "system-reserved"

// combined merges settings of the same flag, so that each flag has one.
func combined(settings []Setting) ([]Setting, error) {
	var all []Setting
	for _, s := range settings {
		i := slices.IndexFunc(all, func(have Setting) bool { return have.Flag == s.Flag })
		if i < 0 {
			all = append(all, s)
			continue
		}
		both := Setting{Flag: s.Flag, Field: all[i].Field + " and " + s.Field}
		switch {
		case s.Values == nil:
			both.Values = all[i].Values
		case s.Flag == reserved:
			sum, err := add(all[i].Values, s.Values)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", both.Field, err)
			}
			both.Values = sum
		case slices.Equal(all[i].Values, s.Values):
			both.Values = s.Values
		default:
			return nil, fmt.Errorf("%s contradict each other", both.Field)
		}
		all[i] = both
	}
	for _, s := range all {
		if s.Values == nil {
			return nil, fmt.Errorf("%s is false, which allows any number of pulls: give maxParallelImagePulls, too",
				s.Field)
		}
	}
	return all, nil
}

// add adds up quantities by name, given as name=quantity.
func add(a, b []string) ([]string, error) {
	sums := map[string]any{}
	for _, pair := range slices.Concat(a, b) {
		name, text, _ := strings.Cut(pair, "=")
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if sum, ok := sums[name].(resource.Quantity); ok {
			quantity.Add(sum)
		}
		sums[name] = quantity
	}
	for name, sum := range sums {
		quantity := sum.(resource.Quantity)
		sums[name] = quantity.String()
	}
	return notation(pairs, sums)
}
