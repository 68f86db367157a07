// Package fieldcheck has checks of single fields for the validation of pods, like pkg/apis/core/validation. Each
// returns an error that names the field, or nothing.
package fieldcheck

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OneOf fails unless value is one of the allowed values.
func OneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// AtLeast fails if value is less than least.
func AtLeast[T int32 | int64](at *field.Path, value, least T) field.ErrorList {
	if value < least {
		return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("it must be at least %d", least))}
	}
	return nil
}

// NoBacksteps fails if a path has a part "..", by which it could leave its directory.
func NoBacksteps(at *field.Path, path string) field.ErrorList {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return field.ErrorList{field.Invalid(at, path, "it must not contain ..")}
	}
	return nil
}

// Absolute fails if a path is not absolute or has a part "..".
func Absolute(at *field.Path, path string) field.ErrorList {
	if !strings.HasPrefix(path, "/") {
		return field.ErrorList{field.Invalid(at, path, "it is not an absolute path")}
	}
	return NoBacksteps(at, path)
}

// Required fails if value is empty.
func Required(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}
